#pragma once

// The flags that say what to train, the same for every command that does.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lockstep::apps {

struct RecipeFlags {
  std::string recipe;  ///< a name, or a path
  std::vector<std::string> sets;
  std::string strategy;  ///< empty: the recipe's

  /// What they set, as "key=value".
  std::vector<std::string> all_sets() const;
};

void add_recipe_flags(CLI::App& command, RecipeFlags& flags);

}  // namespace lockstep::apps
