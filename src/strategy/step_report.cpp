#include "strategy/step_report.h"

#include <lockstep/placement.h>

#include <algorithm>
#include <utility>

#include "device/accelerator.h"

namespace lockstep::strategy {

StepResult result_of(std::int64_t step, const std::string& phase, const Outcome& outcome) {
  return {{.step = step,
           .phase = phase,
           .applied = outcome.applied,
           .loss = outcome.loss,
           .weight = outcome.weight,
           .gradient_norm = outcome.norm,
           .clipped = outcome.clipped}};
}

TowerReport report_of(const Tower& tower) {
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

void BatchResults::add(std::optional<std::int64_t> rows, const std::vector<ShardResults>& shards) {
  rows_ = rows_ && rows ? std::optional(*rows_ + *rows) : std::nullopt;
  for (const ShardResults& shard : shards) results_.add(shard);
}

void BatchResults::put_into(StepResult& result) const {
  result.rows = rows_;
  for (const auto& [name, mean] : results_.metrics()) {
    result.metrics[name] = mean.value();
    result.metric_weights[name] = mean.weight;
  }
  result.outputs = results_.outputs();
}

void settle_times(StepReport& report, Seconds on_host) {
  const auto total = [](const TowerReport& tower) {
    Seconds all{};
    for (const auto& [name, time] : kStageTimes) all += tower.*time;
    return all;
  };
  report.time = on_host;
  for (const TowerReport& tower : report.towers) report.time = std::max(report.time, total(tower));
  for (TowerReport& tower : report.towers) tower.wait += report.time - total(tower);
}

std::vector<std::string> Notes::take(const Outcome& outcome, const ParameterMap& map) {
  const std::vector<char>& reached = outcome.reached;
  std::vector<std::string> result = std::exchange(pending_, {});
  const bool any = std::ranges::find(reached, 1) != reached.end();
  for (std::size_t i = 0; any && i < reached.size(); ++i)
    if (!reached[i] && outcome.selected[i] && said_.insert(map.seats[i]->name).second)
      result.push_back("parameter '" + map.seats[i]->name +
                       "' got no gradient: it is left as it is.");
  for (const Fallback& fallback : fallbacks())
    if (said_.insert(fallback.op + " for " + fallback.device).second)
      result.push_back(fallback.op + " runs on the CPU for " + fallback.device + ": " +
                       fallback.reason + ".");
  return result;
}

}  // namespace lockstep::strategy
