#pragma once

// How far a training has come, as plain numbers. Together with the State this is all a training
// needs to resume as if it had never stopped.

#include <lockstep/metrics.h>
#include <lockstep/schedule.h>
#include <lockstep/stream.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>

namespace lockstep {

/// How late gradients were: the number of steps by StepReport::staleness.
struct Staleness {
  std::map<std::int64_t, std::int64_t> steps = {};  ///< empty: the strategy has no such delay

  double mean() const {
    double sum = 0, count = 0;
    for (const auto& [late, number] : steps) {
      sum += static_cast<double>(late * number);
      count += static_cast<double>(number);
    }
    return sum / count;
  }
  std::int64_t most() const { return steps.empty() ? 0 : steps.rbegin()->first; }
  bool operator==(const Staleness&) const = default;
};

/// The steps since the last report.
struct StepWindow {
  std::int64_t steps = 0;
  std::int64_t told = 0;     ///< how many of them the report at the end of a training covered
  std::int64_t clipped = 0;  ///< steps whose gradient was clipped
  double loss_sum = 0;       ///< of steps without a phase
  double weight = 0;
  double learning_rate = 0;  ///< of the last step; NaN in older checkpoints
  double gradient_norm = 0;  ///< of the last; the same
  Metrics losses = {};       ///< by phase
  Metrics metrics = {};      ///< by name; of a phase: "generator/kl"
  Staleness staleness = {};
  bool operator==(const StepWindow&) const = default;
};

/// When an evaluation or a save was last made.
struct LastDone {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  double seconds = 0;
  bool operator==(const LastDone&) const = default;
};

struct TrainingProgress {
  std::int64_t step = 0;                 ///< steps taken
  std::optional<std::int64_t> rows = 0;  ///< trained on so far; nothing: unknown
  double seconds = 0;                    ///< spent in training, all sessions together
  Position input = {};                   ///< of the next batch
  ScheduleState schedule = {};
  StepWindow window = {};
  LastDone evaluated = {};
  LastDone saved = {};
  double best = std::numeric_limits<double>::quiet_NaN();  ///< of the goal's metric; NaN: none yet
  std::int64_t best_step = 0;
  std::int64_t stale = 0;  ///< evaluations since the best

  std::int64_t epoch() const { return input.empty() ? 0 : input.front(); }
};

}  // namespace lockstep
