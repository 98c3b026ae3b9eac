#pragma once

// A short recipe for data that a user has: the kind is guessed from what is there.

#include <string>
#include <vector>

namespace lockstep::apps {

struct GuessedRecipe {
  std::string about;  ///< what was found: "images in 3 classes"
  std::string text;   ///< TOML
};

/// `paths` is a file or folder, or the two files of parallel texts. Throws ConfigError that lists
/// what can be trained on when it is none of that.
GuessedRecipe guess_recipe(const std::vector<std::string>& paths);

}  // namespace lockstep::apps
