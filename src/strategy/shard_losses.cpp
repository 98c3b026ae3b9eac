#include "strategy/shard_losses.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace lockstep::strategy {

void keep_nothing(Tower& tower) {
  tower.loss_sums.push_back(torch::Tensor());
  tower.weights.push_back(0);
  tower.counting.push_back(0);
}

bool keep(Tower& tower, Loss& loss, const Method& method) {
  const bool total = loss.divisor == Loss::Divisor::nothing;
  tower.loss_sums.push_back(loss.sum.detach());
  tower.weights.push_back(total ? std::numeric_limits<double>::infinity() : loss.weight);
  tower.counting.push_back(loss.counts_without_weight ? 1 : 0);
  if (!loss.metrics.empty() || !loss.outputs.empty())
    tower.brought.push_back(
        {.metrics = std::move(loss.metrics), .outputs = std::move(loss.outputs)});
  if (!loss.sum.is_cpu() && !tower.in_head) return true;
  read_losses(tower, method);
  return std::isfinite(tower.losses.back());
}

void read_losses(Tower& tower, const Method& method) {
  const std::size_t first = tower.losses.size();
  for (std::size_t i = first; i < tower.loss_sums.size(); ++i)
    tower.losses.push_back(tower.loss_sums[i].defined() ? tower.loss_sums[i].item<double>() : 0);
  if (method.non_finite == NonFinite::skip) return;
  for (std::size_t i = first; i < tower.losses.size(); ++i) {
    if (std::isfinite(tower.losses[i])) continue;
    tower.shard = tower.in_head ? -1 : tower.shards.first + static_cast<int>(i);
    throw NonFiniteError("the loss is " + std::to_string(tower.losses[i]));
  }
}

void bring_losses(Tower& tower) {
  for (const Loss& loss : tower.brought) tower.results.push_back(read(loss));
  tower.loss_terms = tower.losses;
  tower.weight_terms = tower.weights;
  tower.counting_terms = tower.counting;
}

double clip_weight(const Tower& tower, std::size_t i) {
  const double weight = std::isinf(tower.weights[i]) ? 1 : tower.weights[i];
  return tower.counting[i] > 0 ? std::max(weight, 1.0) : weight;
}

}  // namespace lockstep::strategy
