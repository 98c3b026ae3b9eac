#pragma once

// What tests of recipes share: a small recipe, what is said when it is refused.

#include <gtest/gtest.h>
#include <lockstep/error.h>

#include <functional>
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace lockstep::apps {

using Sets = std::vector<std::string>;

/// The recipe `text`, with a limit to the training.
inline Recipe read(const std::string& text, const Sets& sets = {}) {
  return parse_recipe(text + "\n[train]\nsteps = 1\n", "my.toml", sets);
}

/// What the ConfigError says that `action` throws; empty when it throws none.
inline std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

inline std::string refusal(const std::string& text, const Sets& sets = {}) {
  return refusal([&] { read(text, sets); });
}

inline void expect_in(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
}

inline std::string nested(const std::string& unit, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += unit;
  return text;
}

}  // namespace lockstep::apps
