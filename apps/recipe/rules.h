#pragma once

// Rules over several fields of a recipe.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fields.h"

namespace lockstep::apps {

/// The name of a field by its address.
using Names = std::function<std::string(const void*)>;

struct Problem {
  std::vector<const void*> fields;  ///< those that are at fault, by address
  std::string what;
};

/// The first field that was changed and that is not read: not by the recipe's kind of data, or not
/// by its strategy.
std::optional<Problem> unread_field(const Recipe& recipe, const std::vector<Section>& sections);

/// Whether the recipe's kind of data and its strategy read a field of a section of `sections`.
bool is_read(const Field& field, const Section& section, const Recipe& recipe,
             const std::vector<Section>& sections);

/// The first rule that `recipe`, whose fields `sections` are, does not keep.
std::optional<Problem> first_problem(const Recipe& recipe, const std::vector<Section>& sections);

}  // namespace lockstep::apps
