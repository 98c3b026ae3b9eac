#include "vision/class_names.h"

#include <lockstep/error.h>

#include <cstdio>

namespace lockstep::vision {

std::vector<std::string> names_of_classes(const std::vector<std::string>& classes,
                                          std::size_t count, const std::string& what) {
  if (!classes.empty() && classes.size() != count)
    throw ConfigError(what + " of " + std::to_string(count) + " classes was given " +
                      std::to_string(classes.size()) + " names: give one a class");
  if (!classes.empty()) return classes;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

std::string shortened(const std::string& name, int most) {
  int letters = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool starts_letter = (static_cast<unsigned char>(name[i]) & 0xc0U) != 0x80U;
    if (starts_letter && ++letters > most) return name.substr(0, i) + "..";
  }
  return name;
}

std::string formatted(const char* format, double value) {
  char text[64] = {};
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace lockstep::vision
