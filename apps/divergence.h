#pragma once

// What to do about a training that has diverged.

#include <string>

#include "recipe/recipe.h"

namespace lockstep::apps {

/// The checkpoints to go back to, as commands, and what usually helps.
std::string advice_after_divergence(const std::string& run, const Recipe& recipe);

}  // namespace lockstep::apps
