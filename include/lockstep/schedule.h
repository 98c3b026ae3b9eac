#pragma once

// The learning rate as a function of the step: a factor by which the optimizer's rate is
// multiplied. It depends on the step alone, except for Plateau, whose few numbers are in
// ScheduleState and so in every checkpoint.

#include <cstdint>
#include <variant>
#include <vector>

namespace lockstep {

struct Constant {};

/// rate ^ (step / steps), as tf.train.exponential_decay.
struct ExponentialDecay {
  double rate = 0.96;
  std::int64_t steps = 1000;
  bool staircase = false;  ///< step / steps in whole numbers
};

/// factors[i] until step boundaries[i], the last factor from then on.
struct Piecewise {
  std::vector<std::int64_t> boundaries = {};  ///< ascending
  std::vector<double> factors = {1};          ///< one more than boundaries
};

/// From 1 down to `floor` along half a cosine, over `steps`.
struct Cosine {
  std::int64_t steps = 1000;
  double floor = 0;
};

/// sqrt(warm-up / step) once the warm-up is over: its peak is at the warm-up's end.
struct InverseSquareRoot {};

/// Multiplies by `factor` each time the training loss exceeds each of the last `patience` reports.
struct Plateau {
  double factor = 0.99;
  int patience = 3;
};

struct Schedule {
  std::variant<Constant, ExponentialDecay, Piecewise, Cosine, InverseSquareRoot, Plateau> shape =
      Constant{};
  std::int64_t warm_up = 0;  ///< steps of a linear rise from near 0, for every shape
};

/// What a schedule remembers.
struct ScheduleState {
  std::int64_t decays = 0;          ///< of Plateau so far
  std::vector<double> recent = {};  ///< losses of the last reports
  bool operator==(const ScheduleState&) const = default;
};

/// Throws ConfigError that names the field when the schedule is not valid.
void check_schedule(const Schedule& schedule);

/// What the learning rate is multiplied by in `step`, from 0.
double rate_factor(const Schedule& schedule, std::int64_t step, const ScheduleState& state = {});

/// Takes note of the training loss of a report.
void note_loss(const Schedule& schedule, ScheduleState& state, double loss);

}  // namespace lockstep
