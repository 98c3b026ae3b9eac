#pragma once

#include <lockstep/precision.h>

#include <cstdint>

namespace lockstep::optim {

/// The scale of the loss in float16, see LossScaling: halved after an overflow, but not below 1;
/// doubled after growth_interval good steps in a row, but not above 2^24. Always a power of two.
class LossScale {
 public:
  /// What a checkpoint keeps.
  struct ScaleState {
    double scale = 1;
    std::int64_t good_steps = 0;  ///< since the scale changed last
    friend bool operator==(const ScaleState&, const ScaleState&) = default;
  };

  /// Throws ConfigError for a first scale that is no power of two from 1 to 2^24, or an interval
  /// below 1.
  explicit LossScale(const LossScaling& options);

  double value() const { return state_.scale; }

  /// A step is over: `overflow` says that its gradients were not finite.
  void update(bool overflow);

  ScaleState state() const { return state_; }
  void restore(const ScaleState& state);  ///< throws ConfigError for a scale that cannot be

 private:
  std::int64_t growth_interval_;
  ScaleState state_;
};

}  // namespace lockstep::optim
