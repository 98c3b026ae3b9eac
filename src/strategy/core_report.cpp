#include <lockstep/placement.h>

#include <algorithm>
#include <utility>

#include "device/accelerator.h"
#include "strategy/core.h"

namespace lockstep::strategy {

namespace {

using Rows = std::optional<std::int64_t>;

/// Unknown where a part is unknown.
Rows sum(const Rows& a, const Rows& b) { return a && b ? Rows(*a + *b) : std::nullopt; }

}  // namespace

StepResult Core::result_of(std::int64_t step, const ShardWork& work, const Outcome& outcome,
                           std::span<Tower> towers) {
  StepResult result{{.step = step,
                     .phase = work.phase,
                     .applied = outcome.applied,
                     .loss = outcome.loss,
                     .weight = outcome.weight,
                     .gradient_norm = outcome.norm,
                     .clipped = outcome.clipped}};
  StepResults results;
  for (Tower& tower : towers) {
    if (options_.where.trace) trace(tower);
    result.towers.push_back(report_of(tower));
    result.rows = sum(result.rows, tower.rows);
    tower.gradients.clear();
    for (const ShardResults& shard : tower.results) results.add(shard);
  }
  for (const auto& [name, mean] : results.metrics()) {
    result.metrics[name] = mean.value();
    result.metric_weights[name] = mean.weight;
  }
  result.outputs = results.outputs();
  return result;
}

TowerReport Core::report_of(const Tower& tower) const {
  return {.device = tower.device.name(),
          .shards = tower.computed,
          .rows = tower.rows,
          .loss = tower.loss().value(),
          .weight = tower.loss().weight,
          .input = tower.clock.in(Stage::input),
          .forward = tower.clock.in(Stage::forward),
          .backward = tower.clock.in(Stage::backward),
          .wait = tower.clock.in(Stage::wait),
          .reduce = tower.clock.in(Stage::reduce),
          .update = tower.clock.in(Stage::update),
          .peak_bytes = device::memory(tower.device).peak_bytes};
}

/// What is worth saying and was not said before.
std::vector<std::string> Core::notes(const Outcome& outcome) {
  const std::vector<char>& reached = outcome.reached;
  std::vector<std::string> result = std::exchange(pending_notes_, {});
  const bool any = std::ranges::find(reached, 1) != reached.end();
  for (std::size_t i = 0; any && i < reached.size(); ++i)
    if (!reached[i] && outcome.selected[i] && noted_.insert(map_.seats[i]->name).second)
      result.push_back("parameter '" + map_.seats[i]->name +
                       "' got no gradient: it is left as it is.");
  for (const Fallback& fallback : fallbacks())
    if (noted_.insert(fallback.op + " for " + fallback.device).second)
      result.push_back(fallback.op + " runs on the CPU for " + fallback.device + ": " +
                       fallback.reason + ".");
  return result;
}

void Core::trace(const Tower& tower) const {
  for (const StageClock::Span& span : tower.clock.spans())
    options_.where.trace->add(tower.device.name(), "stages", name_of(span.stage), span.begin,
                              span.end);
}

}  // namespace lockstep::strategy
