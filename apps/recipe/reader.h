#pragma once

// From a text and what stands behind --set to a recipe.

#include <string>
#include <vector>

#include "recipe.h"

namespace lockstep::apps {

/// As parse_recipe; `kept`: as kept_recipe. `reading` may be null.
Recipe read_recipe(const std::string& text, const std::string& file,
                   const std::vector<std::string>& sets, bool kept, Reading* reading);

/// The family that a text names, or the default.
std::string family_of(const std::string& text, const std::string& file);

}  // namespace lockstep::apps
