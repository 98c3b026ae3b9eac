#include <lockstep/placement.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "device/accelerator.h"
#include "strategy/pipeline/pipeline_engine.h"

namespace lockstep::strategy {

namespace {

std::string megabytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

}  // namespace

Seconds PipelineEngine::now() const { return device::host_now(kind()); }

StepResult PipelineEngine::report(std::int64_t step, const detail::StageWork& work,
                                  const Outcome& outcome, Seconds begin) {
  StepResult result = result_of(step, work.phase, outcome);
  result.notes = notes_.take(outcome, *map_);
  if (options_.where.trace) trace();
  BatchResults results;
  for (const auto& at : towers_) {
    result.towers.push_back(report_of(at->tower));
    at->tower.gradients.clear();
    if (at->stage + 1 == stages()) results.add(at->tower.rows, at->tower.results);
  }
  results.put_into(result);
  settle_times(result, now() - begin);
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
    notes_.add(
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
