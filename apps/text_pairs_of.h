#pragma once

// The pairs of texts that a recipe names: which files, which part, each once.

#include <lockstep/text/pairs.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"

namespace lockstep::apps {

enum class Part { train, test };

/// Goes through all pairs of a recipe, in the order of its files.
text::PairReport for_each_pair(const Recipe& recipe,
                               const std::function<void(text::TextPair, Part)>& action);

/// What the pairs depend on, besides the recipe: every file with its size and time.
std::string files_of_pairs(const Recipe& recipe);

/// The same on every machine.
std::uint64_t text_hash(std::string_view text);

}  // namespace lockstep::apps
