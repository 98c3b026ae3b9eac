#pragma once

// What to do about a training that has diverged.

#include <exception>
#include <string>

#include "recipe/recipe.h"

namespace lockstep::apps {

/// The checkpoints to go back to, as commands, and what usually helps. A checkpoint whose first
/// step is the one that failed is none of them, for its weights lead straight there.
std::string advice_after_divergence(const std::string& run, const Recipe& recipe,
                                    const std::exception_ptr& error);

}  // namespace lockstep::apps
