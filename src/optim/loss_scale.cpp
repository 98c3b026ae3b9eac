#include "optim/loss_scale.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace lockstep::optim {
namespace {

constexpr double kLargest = 16777216;  // 2^24

void require_valid(double scale) {
  int exponent = 0;
  const bool power_of_two = std::frexp(scale, &exponent) == 0.5;
  if (!power_of_two || scale < 1 || scale > kLargest)
    throw ConfigError("the loss scale is a power of two from 1 to 2^24, not " +
                      std::to_string(scale));
}

}  // namespace

LossScale::LossScale(const LossScaling& options) : growth_interval_(options.growth_interval) {
  if (growth_interval_ < 1)
    throw ConfigError("LossScaling::growth_interval is at least 1, not " +
                      std::to_string(growth_interval_));
  restore({.scale = options.initial});
}

void LossScale::update(bool overflow) {
  if (overflow) {
    state_ = {.scale = std::max(state_.scale / 2, 1.0)};
  } else if (++state_.good_steps >= growth_interval_) {
    state_ = {.scale = std::min(state_.scale * 2, kLargest)};
  }
}

void LossScale::restore(const ScaleState& state) {
  require_valid(state.scale);
  state_ = state;
}

}  // namespace lockstep::optim
