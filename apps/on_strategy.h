#pragma once

// The strategies that a recipe can be trained with. A new one is made here, and families do not
// change, unless it takes losses of another kind, as a pipeline does.

#include <lockstep/async.h>
#include <lockstep/error.h>
#include <lockstep/mirrored.h>
#include <lockstep/pipeline.h>

#include <concepts>
#include <memory>
#include <string>
#include <utility>

#include "family_program.h"

namespace lockstep::apps {

/// Whether S takes losses in stages:
///   if constexpr (kInStages<S>) return nn::ssd_stages(loss);
template <class S>
inline constexpr bool kInStages = std::derived_from<S, PipelineBase>;

/// Throws ConfigError for devices that the stages of a pipeline cannot share.
inline void require_stages(const Recipe& recipe, std::size_t devices) {
  const auto stages = static_cast<std::size_t>(recipe.pipeline.stages);
  if (devices % stages != 0)
    throw ConfigError("pipeline.stages is " + std::to_string(stages) + ", and there are " +
                      std::to_string(devices) + " devices: give --devices " +
                      std::to_string(stages) +
                      " of them or a multiple, or change pipeline.stages.");
}

/// Makes the strategy for Model(args...), and the job: use(std::unique_ptr<S>), where S is the
/// strategy's class. A family that has put rules into `options` keeps them. A pipeline on one
/// device is Mirrored, which comes to the same bits.
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
      if (options.where.devices.size() == 1) break;
      require_stages(recipe, options.where.devices.size());
      return use(
          std::make_unique<Pipeline<Model>>(PipelineOptions{.method = std::move(options.method),
                                                            .where = std::move(options.where),
                                                            .stages = recipe.pipeline.stages,
                                                            .recompute = recipe.pipeline.recompute,
                                                            .ahead = recipe.pipeline.ahead},
                                            args...));
  }
  return use(std::make_unique<Mirrored<Model>>(std::move(options), args...));
}

}  // namespace lockstep::apps
