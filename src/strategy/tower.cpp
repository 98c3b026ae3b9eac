#include "strategy/tower.h"

namespace lockstep::strategy {

void Tower::begin_step(Seconds waited) {
  clock.start(waited);
  shard = last_shard = -1;
  exchanges = true;
  gradients.clear();
  taken.clear();
  loss_sums.clear();
  losses.clear();
  weights.clear();
  buffers.clear();
  computed = 0;
  rows = 0;
}

Mean Tower::loss() const {
  Mean mean;
  for (std::size_t i = 0; i < losses.size(); ++i) mean += {losses[i], weights[i]};
  return mean;
}

}  // namespace lockstep::strategy
