#include "strategy/core.h"

#include <algorithm>
#include <cmath>

#include "device/accelerator.h"
#include "optim/rules.h"
#include "strategy/method_changes.h"

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

}  // namespace

Core::Core(MirroredOptions options, const Factory& replica, detail::Making making, Ties ties,
           std::int64_t bucket_bytes, const Towers::MakeCollective& make_collective)
    : options_(validated(std::move(options))),
      pool_(options_.where.devices),
      replicas_(make_replicas(options_, pool_, replica, making, ties == Ties::alone)),
      map_(replicas_.layouts(), bucket_bytes),
      towers_(options_.method, options_.where, ties, pool_, replicas_, map_, make_collective),
      runner_(options_.method, replicas_, map_, towers_),
      loss_scale_(options_.method.precision == Precision::float16 ? options_.method.loss_scaling
                                                                  : LossScaling{.initial = 1}) {
  if (const std::string note = oversubscription(options_.where.devices, inventory()); !note.empty())
    pending_notes_.push_back(note);
}

bool Core::weigh(Tower& tower, Outcome& outcome) const {
  collective::Collective& all = *tower.collective;
  tower.enter(Stage::reduce);
  outcome.weight = divisor(tower, all.sum(tower.rank, {&tower.weight_terms, 1}));
  if (outcome.weight < 1 && all.sum(tower.rank, {&tower.counting_terms, 1}) > 0) outcome.weight = 1;
  outcome.loss = all.sum(tower.rank, {&tower.loss_terms, 1}) / outcome.weight;
  return std::isfinite(outcome.loss);
}

bool Core::reduce(Tower& tower, std::span<collective::GradientSlice> slices,
                  Outcome& outcome) const {
  collective::Collective& all = *tower.collective;
  outcome.reached = all.reduce(tower.rank, tower.gradients.sums(),
                               outcome.weight * tower.pass.loss_scale, slices);
  tower.square_terms.clear();
  for (const collective::GradientSlice& slice : slices)
    tower.square_terms.emplace_back(slice.squares);
  outcome.norm = std::sqrt(all.sum(tower.rank, tower.square_terms));
  if (!acceptable(tower, outcome)) return false;
  const double limit = options_.method.clip.global_norm;
  outcome.clipped = limit > 0 && outcome.norm > limit;
  return true;
}

/// Whether a step with this gradient norm is to be applied. All towers come to the same answer; to
/// refuse the step, the one that has the bad shard throws.
bool Core::acceptable(Tower& tower, Outcome& outcome) const {
  if (std::isfinite(outcome.norm)) return true;
  outcome.overflow = tower.pass.loss_scale > 1;
  if (outcome.overflow || options_.method.non_finite == NonFinite::skip) return false;
  const int shard = tower.gradients.non_finite_shard();
  tower.culprits.assign(1, shard >= 0 ? 1.0 : 0.0);
  tower.culprit_terms = tower.culprits;
  const double culprits = tower.collective->sum(tower.rank, {&tower.culprit_terms, 1});
  if (shard >= 0 || (culprits == 0 && tower.rank == 0)) {
    tower.shard = shard;
    throw NonFiniteError(shard >= 0 ? "the gradient is not finite"
                                    : "the sum of the gradients is not finite");
  }
  return false;
}

optim::Moment Core::moment(const Outcome& outcome) const {
  return {.updates = updates_,
          .clip_factor = clip_factor(outcome),
          .average_keep = average_keep(),
          .numbers = numbers_.get(),
          .selected = outcome.selected};
}

double Core::clip_factor(const Outcome& outcome) const {
  return outcome.clipped ? options_.method.clip.global_norm / outcome.norm : 1;
}

double Core::average_keep() const {
  if (!options_.method.moving_average) return 0;
  const auto step = static_cast<double>(updates_);
  const auto [decay, warm_up] = *options_.method.moving_average;
  return warm_up ? std::min(decay, (1 + step) / (10 + step)) : decay;
}

/// Of scripts, which all have run by now.
void Core::require_same_modes() {
  for (const Tower* tower = towers_.begin() + 1; tower < towers_.end(); ++tower)
    (tower - 1)->scripts.require_same_modes((tower - 1)->device.name(), tower->scripts,
                                            tower->device.name());
}

std::vector<char> Core::selection(const std::string& update) {
  std::vector<char> selected = replicas_.trainable();
  std::vector<char>& meant = matches_[update];
  if (meant.empty())
    for (const arena::Seat* seat : map_.seats) meant.push_back(optim::matches(update, seat->name));
  for (std::size_t i = 0; i < selected.size(); ++i) selected[i] = selected[i] && meant[i];
  if (std::ranges::find(selected, 1) == selected.end())
    throw ConfigError("update = '" + update +
                      "' matches no trainable parameter; the model's first is '" +
                      map_.seats.front()->name + "'.");
  return selected;
}

/// By parameter. Throws ConfigError when none matches.
std::vector<char> Core::matching(const char* what, const std::string& pattern) const {
  std::vector<std::string> names;
  for (const arena::Seat* seat : map_.seats) names.push_back(seat->name);
  return optim::matching(what, pattern, names);
}

void Core::set_trainable(const std::string& pattern, bool trainable) {
  bool any = false;
  std::vector<char> flags = replicas_.trainable();
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (optim::matches(pattern, map_.seats[i]->name)) {
      flags[i] = trainable;
      any = true;
    }
  if (!any)
    throw ConfigError("set_trainable: '" + pattern +
                      "' matches no parameter that was trainable when the towers were made; the "
                      "first is '" +
                      map_.seats.front()->name + "'.");
  replicas_.require_gradients(flags);
}

void Core::set_learning_rate(std::size_t number, double lr) {
  change_learning_rate(options_.method, number, lr);
}

void Core::set_optimizer(std::size_t number, const Optimizer& optimizer) {
  change_optimizer(options_.method, towers_.made_with(), number, optimizer);
}

void Core::require_success(const std::optional<Failure>& failure, const char* stage) const {
  if (failure) throw TowerError(failure->device, steps_, failure->shard, stage, failure->cause);
}

Seconds Core::now() const { return device::host_now(options_.where.devices.front().kind); }

torch::Device Core::device_of(Place place) const { return replicas_.device(place); }

}  // namespace lockstep::strategy
