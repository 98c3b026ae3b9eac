#include "strategy/core.h"

#include <algorithm>
#include <cmath>

#include "device/accelerator.h"
#include "optim/rules.h"
#include "strategy/method_changes.h"

namespace lockstep::strategy {

namespace {

/// With the towers of its collective.
Adding adding_of(const Tower& tower) {
  return {[&tower](const collective::SumTerms& terms) {
            return tower.collective->sum(tower.rank, {&terms, 1});
          },
          tower.rank == 0};
}

/// Between CPU devices of machines even a small model goes in several buckets: most of it is on its
/// way before backward ends. Accelerators sum a bucket on all of them at once, so it may be large.
std::int64_t fitting(std::int64_t bucket_bytes, const Where& where,
                     const std::vector<arena::Layout>& layouts) {
  constexpr std::int64_t kLeast = 1 << 20, kParts = 16;
  if (!where.machines || device::is_accelerator(where.devices.front().kind)) return bucket_bytes;
  std::int64_t bytes = 0;
  for (const arena::Layout& layout : layouts)
    bytes += layout.size * static_cast<std::int64_t>(c10::elementSize(layout.dtype));
  return std::min(bucket_bytes, std::max(bytes / kParts, kLeast));
}

}  // namespace

Core::Core(MirroredOptions options, const Factory& replica, detail::Making making, Ties ties,
           std::int64_t bucket_bytes, const Towers::MakeCollective& make_collective)
    : options_(validated(std::move(options))),
      pool_(options_.where.devices),
      replicas_(make_replicas(options_, pool_, replica, making, ties == Ties::alone)),
      map_(replicas_.layouts(), fitting(bucket_bytes, options_.where, replicas_.layouts())),
      towers_(options_.method, options_.where, ties, pool_, replicas_, map_, make_collective),
      runner_(options_.method, replicas_, map_, towers_),
      loss_scale_(options_.method.precision == Precision::float16 ? options_.method.loss_scaling
                                                                  : LossScaling{.initial = 1}) {
  if (const std::string note = oversubscription(options_.where.devices, inventory()); !note.empty())
    notes_.add(note);
}

bool Core::weigh(Tower& tower, Outcome& outcome) const {
  tower.enter(Stage::reduce);
  return strategy::weigh(tower, adding_of(tower), outcome);
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
  return accept(tower, adding_of(tower), options_.method, outcome);
}

optim::Moment Core::moment(const Outcome& outcome) const {
  return moment_of(options_.method, updates_, numbers_, outcome);
}

/// Of scripts, which all have run by now.
void Core::require_same_modes() {
  for (const Tower* tower = towers_.begin() + 1; tower < towers_.end(); ++tower)
    (tower - 1)->scripts.require_same_modes((tower - 1)->device.name(), tower->scripts,
                                            tower->device.name());
}

std::vector<char> Core::selection(const std::string& update) {
  return selection_.of(update, replicas_.trainable(), map_);
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
