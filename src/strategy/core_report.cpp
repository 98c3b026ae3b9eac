#include "strategy/core.h"

namespace lockstep::strategy {

StepResult Core::result_of(std::int64_t step, const ShardWork& work, const Outcome& outcome,
                           std::span<Tower> towers) {
  StepResult result = strategy::result_of(step, work.phase, outcome);
  BatchResults results;
  for (Tower& tower : towers) {
    if (options_.where.trace) trace(tower);
    result.towers.push_back(report_of(tower));
    results.add(tower.rows, tower.results);
    tower.gradients.clear();
  }
  results.put_into(result);
  return result;
}

void Core::trace(const Tower& tower) const {
  for (const StageClock::Span& span : tower.clock.spans())
    options_.where.trace->add(tower.device.name(), "stages", name_of(span.stage), span.begin,
                              span.end);
}

}  // namespace lockstep::strategy
