#include "strategy/tower.h"

namespace lockstep::strategy {

const char* name_of(Stage stage) {
  switch (stage) {
    case Stage::input:
      return "input";
    case Stage::forward:
      return "forward";
    case Stage::backward:
      return "backward";
    case Stage::reduce:
      return "reduce";
    case Stage::update:
      return "update";
    case Stage::wait:
      return "wait";
  }
  return "?";
}

void StageClock::start(Seconds waited) {
  stage_ = Stage::input;
  since_ = std::chrono::steady_clock::now();
  waited_ = waited;
  times_ = {};
}

void StageClock::enter(Stage stage, Seconds waited) {
  const auto now = std::chrono::steady_clock::now();
  const Seconds idle = waited - waited_;
  times_[static_cast<std::size_t>(stage_)] += now - since_ - idle;
  times_[static_cast<std::size_t>(Stage::wait)] += idle;
  stage_ = stage;
  since_ = now;
  waited_ = waited;
}

void Tower::begin_step(Seconds waited) {
  clock.start(waited);
  shard = -1;
  shards = 0;
  gradients.clear();
  losses.clear();
  weights.clear();
  buffers.clear();
  rows = 0;
}

Mean Tower::loss() const {
  Mean mean;
  for (std::size_t i = 0; i < losses.size(); ++i) mean += {losses[i], weights[i]};
  return mean;
}

}  // namespace lockstep::strategy
