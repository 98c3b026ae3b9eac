#pragma once

// Rules over several fields of a recipe.

#include <optional>
#include <string>
#include <vector>

#include "fields.h"

namespace lockstep::apps {

struct Problem {
  std::vector<const void*> fields;  ///< those that are at fault, by address
  std::string what;
};

/// The first rule that `recipe`, whose fields `sections` are, does not keep.
std::optional<Problem> first_problem(const Recipe& recipe, const std::vector<Section>& sections);

}  // namespace lockstep::apps
