#pragma once

// The strategies that a recipe can be trained with. A new one is made here, and families do not
// change.

#include <lockstep/async.h>
#include <lockstep/error.h>
#include <lockstep/mirrored.h>

#include <memory>
#include <utility>

#include "family_program.h"

namespace lockstep::apps {

/// Makes the strategy for Model(args...), and the job: use(std::unique_ptr<S>), where S is the
/// strategy's class. A family that has put rules into `options` keeps them.
template <class Model, class Use, class... Args>
std::unique_ptr<Job> on_strategy(const Recipe& recipe, MirroredOptions options, const Use& use,
                                 const Args&... args) {
  if (!recipe.optimizer.decay_biases_and_norms && options.method.rules.empty())
    options.method.rules = apps::undecayed(Model(args...));
  switch (recipe.strategy) {
    case StrategyName::mirrored:
      break;
    case StrategyName::async:
      return use(std::make_unique<Async<Model>>(std::move(options), args...));
    case StrategyName::pipeline:
      throw ConfigError("strategy = pipeline is not in this version: use mirrored, or async.");
  }
  return use(std::make_unique<Mirrored<Model>>(std::move(options), args...));
}

}  // namespace lockstep::apps
