#include <c10/util/Exception.h>

#include <algorithm>

#include "device/accelerator.h"
#include "strategy/engine.h"

namespace lockstep::detail {

bool is_device_failure(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const DeviceLost&) {
    return true;
  } catch (const c10::OutOfMemoryError&) {
    return true;
  } catch (const c10::AcceleratorError&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// Takes a device that failed out of the towers, and with it those that do not answer any more: the
/// others share its shards, and its slices with the slots that were copied to the host. False when
/// the step cannot be replayed.
bool Engine::go_on_without(const TowerError& error) {
  if (options_.where.on_device_failure != OnDeviceFailure::replay || torn_ || averaged_ ||
      !is_device_failure(error.cause))
    return false;
  std::vector<std::vector<torch::Tensor>> parts;  // by slot, and the average
  for (std::size_t k = 0; k < towers_.front().mirror.front().size(); ++k)
    parts.push_back(put_together(
        [k](const Tower& tower, std::size_t bucket) { return tower.mirror[bucket][k]; }));
  std::set<std::string> gone = {error.device};
  for (;;) {
    if (!retire(gone)) return false;
    torn_ = true;  // until the others have taken over
    try {
      take_over(parts);
      break;
    } catch (const DeviceLost& lost) {  // one more
      gone = {lost.device};
    }
  }
  torn_ = false;
  pending_notes_.push_back(std::string(error.what()) + ". The other devices go on without it.");
  return true;
}

/// Retires the replicas of devices that are gone, or do not answer. False, and nothing is changed,
/// when that would leave none, or lose what the caller wrote to the model.
bool Engine::retire(const std::set<std::string>& gone) {
  std::vector<int> lost;
  for (const int place : replicas_->places())
    if (gone.contains(pool_->device(place).name()) || !device::answers(pool_->device(place)))
      lost.push_back(place);
  if (lost.empty() || lost.size() == replicas_->places().size()) return false;
  if (lost.front() == replicas_->first() && replicas_->ahead()) return false;
  for (const int place : lost) replicas_->retire(place);
  return true;
}

/// Makes the towers of the places that are left, with the slots and averages in `parts`.
void Engine::take_over(const std::vector<std::vector<torch::Tensor>>& parts) {
  make_towers(replicas_->places());
  for (std::size_t k = 0; k < parts.size(); ++k)
    take_apart(parts[k], [k](const Tower& tower, std::size_t bucket) {
      const optim::SliceUpdate& slice = tower.updates[bucket];
      return k < slice.slots().size() ? slice.slots()[k].value : slice.average();
    });
  pool_->run([&](int place) {
    if (tower_at(place)) mirror_slots(*tower_at(place));
  });
}

/// Copies a tower's slots and moving averages to the host.
void Engine::mirror_slots(Tower& tower) {
  const torch::NoGradGuard no_grad;
  tower.mirror.resize(tower.updates.size());
  for (std::size_t bucket = 0; bucket < tower.updates.size(); ++bucket) {
    const optim::SliceUpdate& slice = tower.updates[bucket];
    std::vector<torch::Tensor> parts;
    for (const optim::Slot& slot : slice.slots()) parts.push_back(slot.value);
    if (slice.average().defined()) parts.push_back(slice.average());
    std::vector<torch::Tensor>& mirror = tower.mirror[bucket];
    mirror.resize(parts.size());
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (!mirror[k].defined())
        mirror[k] = torch::empty(parts[k].sizes(), parts[k].options().device(torch::kCPU));
      mirror[k].copy_(parts[k]);
    }
  }
}

/// Gives slow devices fewer shards: one after the other, each shard goes where it will be done
/// first. Moves them only when that is clearly better, because the exchange is planned anew.
void Engine::balance() {
  constexpr double kSmoothing = 0.5, kWorthwhile = 0.95;
  std::vector<int> counts(towers_.size());
  std::vector<Seconds> cost(towers_.size());
  Seconds now{};
  for (std::size_t i = 0; i < towers_.size(); ++i) {
    const Tower& tower = towers_[i];
    if (tower.computed > 0) {
      const Seconds time =
          (tower.clock.in(strategy::Stage::forward) + tower.clock.in(strategy::Stage::backward)) /
          tower.computed;
      const auto [known, fresh] = shard_times_.emplace(tower.place, time);
      if (!fresh) known->second += kSmoothing * (time - known->second);
    }
    cost[i] = shard_times_[tower.place];
    now = std::max(now, cost[i] * (tower.shards.end - tower.shards.first));
  }
  for (int shard = 0; shard < options_.method.shards; ++shard) {
    const auto done = [&](std::size_t i) { return cost[i] * (counts[i] + 1); };
    std::size_t best = 0;
    for (std::size_t i = 1; i < towers_.size(); ++i)
      if (done(i) < done(best)) best = i;
    ++counts[best];
  }
  Seconds then{};
  Ranges ranges;
  int first = 0;
  for (std::size_t i = 0; i < towers_.size(); ++i) {
    ranges.push_back({first, first + counts[i]});
    first += counts[i];
    then = std::max(then, cost[i] * counts[i]);
  }
  if (then < kWorthwhile * now) move_shards(ranges);
}

/// The step is over: what fails here must not make it look as if it had failed.
void Engine::move_shards(const Ranges& ranges) {
  Ranges before;
  for (const Tower& tower : towers_) before.push_back(tower.shards);
  try {
    assign(ranges);
  } catch (const std::exception& error) {
    balances_ = false;
    pending_notes_.push_back(
        "shards stay where they are, for the exchange could not be planned "
        "anew: " +
        std::string(error.what()));
    try {
      assign(before);
    } catch (const std::exception&) {  // the next step plans it, or says why it cannot
    }
  }
}

}  // namespace lockstep::detail
