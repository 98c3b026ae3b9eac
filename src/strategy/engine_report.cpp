#include <utility>

#include <lockstep/placement.h>

#include "device/accelerator.h"
#include "strategy/engine.h"

namespace lockstep::detail {

using strategy::Stage;

StepReport Engine::report(const Outcome& outcome) {
  StepReport result{.step = steps_,
                    .applied = outcome.applied,
                    .loss = outcome.loss,
                    .weight = outcome.weight,
                    .gradient_norm = outcome.norm,
                    .clipped = outcome.clipped};
  result.notes = notes();
  if (options_.trace) trace();
  for (Tower& tower : towers_) {
    result.towers.push_back(report_of(tower));
    result.rows += tower.rows;
    tower.gradients.clear();
  }
  return result;
}

TowerReport Engine::report_of(const Tower& tower) const {
  return {.device = tower.device.name(),
          .shards = tower.computed,
          .rows = tower.rows,
          .loss = tower.loss().value(),
          .input = tower.clock.in(Stage::input),
          .forward = tower.clock.in(Stage::forward),
          .backward = tower.clock.in(Stage::backward),
          .wait = tower.clock.in(Stage::wait),
          .reduce = tower.clock.in(Stage::reduce),
          .update = tower.clock.in(Stage::update),
          .peak_bytes = device::memory(tower.device).peak_bytes};
}

/// What is worth saying and was not said before.
std::vector<std::string> Engine::notes() {
  std::vector<std::string> result = std::exchange(pending_notes_, {});
  const auto& trainable = (*replicas_)[0].tensors.trainable;
  bool any = false;
  std::vector<bool> reached(trainable.size());
  for (const Tower& tower : towers_)
    for (const collective::ShardSum& sum : tower.gradients.sums())
      for (std::size_t i = 0; i < reached.size(); ++i)
        if (sum.gradients[i].defined()) any = reached[i] = true;
  for (std::size_t i = 0; any && i < reached.size(); ++i)
    if (!reached[i] && noted_.insert(trainable[i].name).second)
      result.push_back("parameter '" + trainable[i].name + "' got no gradient: it counts as zero.");
  for (const Fallback& fallback : fallbacks())
    if (noted_.insert(fallback.op + " for " + fallback.device).second)
      result.push_back(fallback.op + " runs on the CPU for " + fallback.device + ": " +
                       fallback.reason + ".");
  return result;
}

void Engine::trace() {
  for (const Tower& tower : towers_)
    for (const strategy::StageClock::Span& span : tower.clock.spans())
      options_.trace->add(tower.device.name(), "stages", strategy::name_of(span.stage), span.begin,
                          span.end);
}

}  // namespace lockstep::detail
