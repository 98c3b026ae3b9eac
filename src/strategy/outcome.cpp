#include "strategy/outcome.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cmath>

namespace lockstep::strategy {
namespace {

/// What sums over the batch are divided by, when `weight` is the sum of all shards' weights.
double divisor(const Tower& tower, double weight) {
  if (!std::isinf(weight)) return weight;
  const auto counts = [](double own) { return own > 0 && !std::isinf(own); };
  if (std::ranges::any_of(tower.weights, counts))
    throw ConfigError(
        "some shards returned Loss::total, others a mean or a sum with a weight; all shards of a "
        "step return the same kind.");
  return 1;
}

double average_keep(const Method& method, std::int64_t updates) {
  if (!method.moving_average) return 0;
  const auto step = static_cast<double>(updates);
  const auto [decay, warm_up] = *method.moving_average;
  return warm_up ? std::min(decay, (1 + step) / (10 + step)) : decay;
}

}  // namespace

bool weigh(const Tower& tower, const Adding& adding, Outcome& outcome) {
  outcome.weight = divisor(tower, adding.sum(tower.weight_terms));
  if (outcome.weight < 1 && adding.sum(tower.counting_terms) > 0) outcome.weight = 1;
  outcome.loss = adding.sum(tower.loss_terms) / outcome.weight;
  return std::isfinite(outcome.loss);
}

bool accept(Tower& tower, const Adding& adding, const Method& method, Outcome& outcome) {
  if (std::isfinite(outcome.norm)) {
    const double limit = method.clip.global_norm;
    outcome.clipped = limit > 0 && outcome.norm > limit;
    return true;
  }
  outcome.overflow = tower.pass.loss_scale > 1;
  if (outcome.overflow || method.non_finite == NonFinite::skip) return false;
  const int shard = tower.gradients.non_finite_shard();
  tower.culprits.assign(1, shard >= 0 ? 1.0 : 0.0);
  tower.culprit_terms = tower.culprits;
  const double culprits = adding.sum(tower.culprit_terms);
  if (shard >= 0 || (culprits == 0 && adding.first)) {
    tower.shard = shard;
    throw NonFiniteError(shard >= 0 ? "the gradient is not finite"
                                    : "the sum of the gradients is not finite");
  }
  return false;
}

double clip_factor(const Method& method, const Outcome& outcome) {
  return outcome.clipped ? method.clip.global_norm / outcome.norm : 1;
}

optim::Moment moment_of(const Method& method, std::int64_t updates,
                        const optim::UpdateNumbers& numbers, const Outcome& outcome) {
  return {.updates = updates,
          .clip_factor = clip_factor(method, outcome),
          .average_keep = average_keep(method, updates),
          .numbers = numbers.get(),
          .selected = outcome.selected};
}

}  // namespace lockstep::strategy
