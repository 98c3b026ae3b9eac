#include "strategy/tower.h"

#include <cmath>

namespace lockstep::strategy {

void Tower::begin_step(collective::Collective& with, const Pass& what) {
  collective = &with;
  pass = what;
  clock.start(with.waited(rank));
  shard = last_shard = -1;
  gradients.clear();
  taken.clear();
  loss_sums.clear();
  losses.clear();
  weights.clear();
  counting.clear();
  brought.clear();
  results.clear();
  buffers.clear();
  scripts.clear();
  computed = 0;
  rows = 0;
}

Mean Tower::loss() const {
  Mean mean;
  for (std::size_t i = 0; i < losses.size(); ++i) mean += {losses[i], weights[i]};
  if (std::isinf(mean.weight)) mean.weight = 1;
  if (mean.weight == 0) mean.sum = 0;  // its loss counts in that of the batch
  return mean;
}

std::vector<Flats> Tower::kept() const {
  std::vector<Flats> result(updates.front().slots().size() + updates.front().average().defined());
  for (const optim::SliceUpdate& slice : updates) {
    std::size_t i = 0;
    for (const torch::Tensor& slot : slice.slots()) result[i++].push_back(slot);
    if (slice.average().defined()) result[i].push_back(slice.average());
  }
  return result;
}

}  // namespace lockstep::strategy
