// Writes recipes: as TOML, as help, as what differs.

#include <algorithm>
#include <sstream>

#include "fields.h"
#include "recipe.h"
#include "words.h"

namespace lockstep::apps {
namespace {

constexpr std::size_t kColumns = 100;

std::string explained(const Field& field) { return field.help + " (" + allowed(field) + ")"; }

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

}  // namespace

std::string print_recipe(const Recipe& recipe) {
  Recipe copy = recipe;
  std::ostringstream out;
  for (const Section& section : sections(copy)) {
    out << (out.tellp() == 0 ? "# " : "\n# ") << section.help << "\n";
    if (!section.name.empty()) out << "[" << section.name << "]\n";
    for (const Field& field : section.fields) {
      out << "\n";
      for (const std::string& line : wrapped(explained(field), kColumns - 2))
        out << "# " << line << "\n";
      out << field.name.substr(field.name.rfind('.') + 1) << " = " << text_of(field) << "\n";
    }
  }
  return out.str();
}

std::map<std::string, std::variant<bool, double, std::string>> values_of(const Recipe& recipe) {
  Recipe copy = recipe;
  std::map<std::string, std::variant<bool, double, std::string>> values;
  for (const Section& section : sections(copy))
    for (const Field& field : section.fields)
      std::visit(
          [&](const auto& target) {
            using T = std::decay_t<decltype(target)>;
            if constexpr (std::is_same_v<T, bool*>)
              values[field.name] = *target;
            else if constexpr (std::is_same_v<T, int*> || std::is_same_v<T, std::int64_t*> ||
                               std::is_same_v<T, double*>)
              values[field.name] = static_cast<double>(*target);
            else if constexpr (std::is_same_v<T, std::string*>)
              values[field.name] = *target;
            else if constexpr (std::is_same_v<T, Choice>)
              values[field.name] = target.words.at(target.chosen());
            else
              values[field.name] = text_of(field);
          },
          field.target);
  return values;
}

std::vector<std::string> differences(const Recipe& a, const Recipe& b) {
  Recipe first = a;
  Recipe second = b;
  const auto of_first = sections(first);
  const auto of_second = sections(second);
  std::vector<std::string> result;
  for (std::size_t i = 0; i < of_first.size(); ++i)
    for (std::size_t j = 0; j < of_first[i].fields.size(); ++j) {
      const std::string before = text_of(of_first[i].fields[j]);
      const std::string after = text_of(of_second[i].fields[j]);
      if (before != after)
        result.push_back(of_first[i].fields[j].name + ": " + before + " -> " + after);
    }
  return result;
}

std::string describe_fields() {
  Recipe defaults;
  const auto all = sections(defaults);
  std::size_t name_width = 0;
  std::size_t default_width = 0;
  for (const Section& section : all)
    for (const Field& field : section.fields) {
      name_width = std::max(name_width, field.name.size());
      default_width = std::max(default_width, text_of(field).size());
    }
  const std::size_t indent = 2 + name_width + 2 + default_width + 2;
  std::ostringstream out;
  for (const Section& section : all) {
    out << (section.name.empty() ? "" : "\n[" + section.name + "] ") << section.help << "\n";
    for (const Field& field : section.fields) {
      std::string begin = "  " + padded(field.name, name_width) + "  " + text_of(field);
      for (const std::string& line : wrapped(explained(field), kColumns - indent)) {
        out << padded(begin, indent) << line << "\n";
        begin.clear();
      }
    }
  }
  return out.str();
}

}  // namespace lockstep::apps
