#include <lockstep/placement.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "device/accelerator.h"
#include "strategy/pipeline/pipeline_engine.h"

namespace lockstep::strategy {

namespace {

/// What the step took, as all towers see it; what a tower does not account for, it waited.
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

std::string megabytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

}  // namespace

Seconds PipelineEngine::now() const { return device::host_now(kind()); }

StepResult PipelineEngine::report(std::int64_t step, const detail::StageWork& work,
                                  const Outcome& outcome, Seconds begin) {
  StepResult result{{.step = step,
                     .phase = work.phase,
                     .applied = outcome.applied,
                     .loss = outcome.loss,
                     .weight = outcome.weight,
                     .gradient_norm = outcome.norm,
                     .clipped = outcome.clipped}};
  result.notes = notes(outcome);
  if (options_.where.trace) trace();
  StepResults results;
  for (const auto& at : towers_) {
    result.towers.push_back(report_of(*at));
    at->tower.gradients.clear();
    if (at->stage + 1 < stages()) continue;
    result.rows = result.rows && at->tower.rows ? std::optional(*result.rows + *at->tower.rows)
                                                : std::nullopt;
    for (const ShardResults& shard : at->tower.results) results.add(shard);
  }
  for (const auto& [name, mean] : results.metrics()) {
    result.metrics[name] = mean.value();
    result.metric_weights[name] = mean.weight;
  }
  result.outputs = results.outputs();
  settle_times(result, now() - begin);
  return result;
}

TowerReport PipelineEngine::report_of(const StageTower& at) const {
  const Tower& tower = at.tower;
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
std::vector<std::string> PipelineEngine::notes(const Outcome& outcome) {
  const std::vector<char>& reached = outcome.reached;
  std::vector<std::string> result = std::exchange(pending_notes_, {});
  const bool any = std::ranges::find(reached, 1) != reached.end();
  for (std::size_t i = 0; any && i < reached.size(); ++i)
    if (!reached[i] && outcome.selected[i] && noted_.insert(map_->seats[i]->name).second)
      result.push_back("parameter '" + map_->seats[i]->name +
                       "' got no gradient: it is left as it is.");
  for (const Fallback& fallback : fallbacks())
    if (noted_.insert(fallback.op + " for " + fallback.device).second)
      result.push_back(fallback.op + " runs on the CPU for " + fallback.device + ": " +
                       fallback.reason + ".");
  return result;
}

/// What each stage has: one line a stage.
void PipelineEngine::note_plan() {
  for (std::size_t stage = 0; stage < plan_->stages(); ++stage) {
    std::size_t parameters = 0, copies = 0;
    std::int64_t bytes = 0, copied = 0;
    for (const arena::Seat* seat : map_->seats) {
      const auto& tensor = models_->first().tensors.trainable[seat->entry].tensor;
      const auto size = seat->numel * static_cast<std::int64_t>(tensor.element_size());
      if (plan_->owner(seat->entry) == stage) {
        ++parameters;
        bytes += size;
      } else if (plan_->holds(stage, seat->entry)) {
        ++copies;
        copied += size;
      }
    }
    std::string devices;
    std::size_t flights = 0;
    for (const auto& at : towers_)
      if (at->stage_index() == stage) {
        devices += (devices.empty() ? "" : ", ") + at->tower.device.name();
        flights = std::min(at->modules.size(), static_cast<std::size_t>(at->tower.shards.size()));
      }
    pending_notes_.push_back(
        "stage " + std::to_string(stage + 1) + " of " + std::to_string(plan_->stages()) + " on " +
        devices + ": " + std::to_string(parameters) + " parameters, " + megabytes(bytes) +
        (copies > 0 ? ", copies of " + std::to_string(copies) + " others, " + megabytes(copied)
                    : "") +
        "; slots and averages " +
        megabytes(bytes * static_cast<std::int64_t>(kept_count_) /
                  static_cast<std::int64_t>(replicas())) +
        " a device; up to " + std::to_string(flights) +
        (flights == 1 ? " shard in flight" : " shards in flight") +
        (options_.recompute && stage + 1 < plan_->stages() ? ", recomputed." : "."));
  }
}

/// Forward and backward of each shard, and what is between them.
void PipelineEngine::trace() {
  for (const auto& at : towers_) {
    const auto& spans = at->tower.clock.spans();
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const StageClock::Span& span = spans[i];
      const int shard = i < at->spans.size() ? at->spans[i] : -1;
      std::string name = name_of(span.stage);
      if (shard >= 0 && span.stage != Stage::wait)
        name = (span.stage == Stage::forward ? "F " : "B ") + std::to_string(shard);
      options_.where.trace->add(at->tower.device.name(), "stages", name, span.begin, span.end);
    }
  }
}

}  // namespace lockstep::strategy
