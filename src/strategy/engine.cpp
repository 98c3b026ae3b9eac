#include "strategy/engine.h"

#include <algorithm>
#include <cmath>

#include "device/accelerator.h"

namespace lockstep::detail {

using strategy::Stage;

// One step on one tower: the whole algorithm. Only the calls of the collective cross towers.
Engine::Outcome Engine::train(Tower& tower, const ShardWork& work) {
  Outcome outcome;
  run_shards(tower, work);  // forward and backward of its shards, gradients summed up the tree

  enter(tower, Stage::reduce);
  outcome.weight = collective_->sum(tower.index, {&tower.weight_terms, 1});
  outcome.loss = collective_->sum(tower.index, {&tower.loss_terms, 1}) / outcome.weight;
  if (!std::isfinite(outcome.loss)) return outcome;  // weightless, or not finite and to be skipped
  if (tower.index == 0) average_buffers();
  outcome.reached = collective_->reduce(tower.index, tower.gradients.sums(),
                                        outcome.weight * loss_scale_.value(), tower.slices);
  outcome.norm = std::sqrt(collective_->sum(tower.index, tower.square_terms));
  if (!acceptable(tower, outcome)) return outcome;
  const double limit = options_.method.clip.global_norm;
  outcome.clipped = limit > 0 && outcome.norm > limit;

  enter(tower, Stage::update);
  const optim::Moment moment{.updates = updates_,
                             .clip_factor = outcome.clipped ? limit / outcome.norm : 1,
                             .average_keep = average_keep()};
  for (optim::SliceUpdate& slice : tower.updates)
    slice.apply(options_.method.optimizer, moment, outcome.reached);
  collective_->gather(tower.index);
  outcome.applied = true;
  return outcome;
}

/// Whether a step with this gradient norm is to be applied. All towers come to the same answer; to
/// refuse the step, the one that has the bad shard throws.
bool Engine::acceptable(Tower& tower, Outcome& outcome) {
  if (std::isfinite(outcome.norm)) return true;
  outcome.overflow = loss_scale_.value() > 1;
  if (outcome.overflow || options_.method.non_finite == NonFinite::skip) return false;
  const int shard = tower.gradients.non_finite_shard();
  tower.culprits.assign(1, shard >= 0 ? 1.0 : 0.0);
  tower.culprit_terms = tower.culprits;
  const double culprits = collective_->sum(tower.index, {&tower.culprit_terms, 1});
  if (shard >= 0 || (culprits == 0 && tower.index == 0)) {
    tower.shard = shard;
    throw NonFiniteError(shard >= 0 ? "the gradient is not finite"
                                    : "the sum of the gradients is not finite");
  }
  return false;
}

double Engine::average_keep() const {
  if (!options_.method.moving_average) return 0;
  const auto step = static_cast<double>(updates_);
  const auto [decay, warm_up] = *options_.method.moving_average;
  return warm_up ? std::min(decay, (1 + step) / (10 + step)) : decay;
}

void Engine::enter(Tower& tower, Stage stage) {
  tower.clock.enter(stage, collective_->waited(tower.index));
}

StepReport Engine::step(const ShardWork& work) {
  const Seconds begin = now();
  return surviving(strategy::name_of(Stage::input), [&] { return attempt(work, begin); });
}

StepReport Engine::attempt(const ShardWork& work, Seconds begin) {
  Outcome outcome;
  run_towers([&](Tower& tower) {
    const Outcome own = train(tower, work);
    if (tower.index == 0) outcome = own;
    if (own.applied && options_.where.on_device_failure == OnDeviceFailure::replay)
      mirror_slots(tower);
  });
  settle_buffers(outcome.applied);
  if (outcome.applied) ++updates_;
  if (outcome.applied) audits_ = false;
  if (options_.method.precision == Precision::float16 && (outcome.applied || outcome.overflow))
    loss_scale_.update(outcome.overflow);
  StepReport result = report(outcome, begin);
  ++steps_;
  if (balances_) balance();
  return result;
}

/// Prepares the buffers that will go with the updated weights. By the first tower, when the others
/// have computed their shards and cannot have begun to update.
void Engine::average_buffers() {
  std::vector<std::vector<torch::Tensor>> by_shard;
  for (const Tower& tower : towers_)
    by_shard.insert(by_shard.end(), tower.buffers.begin(), tower.buffers.end());
  replicas_->average_buffers(by_shard);
}

/// After an applied step the buffers follow the weights, else they are what they were.
void Engine::settle_buffers(bool applied) try {
  if (!applied) return replicas_->restore_buffers();
  torn_ = true;  // until they follow
  replicas_->commit_buffers();
  torn_ = false;
} catch (const DeviceLost& lost) {
  throw TowerError(lost.device, steps_, -1, strategy::name_of(Stage::update),
                   std::current_exception());
}

StepReport Engine::compute(const ShardWork& work) {
  const Seconds begin = now();
  return surviving(strategy::name_of(Stage::input), [&] {
    run_towers([&](Tower& tower) {
      tower.exchanges = false;
      run_shards(tower, work);
    });
    replicas_->restore_buffers();
    Mean loss;
    for (const Tower& tower : towers_) loss += tower.loss();
    return report({.loss = loss.value(), .weight = loss.weight}, begin);
  });
}

void Engine::require_whole() const {
  check(!torn_,
        "the weights were lost in an earlier failure: load a state, or make the towers anew");
}

/// Runs one step's `job` on all towers. When one fails, what the step has left is cleared away, and
/// the first error comes out as a TowerError.
void Engine::run_towers(const std::function<void(Tower&)>& job) {
  check(!averaged_, "no step inside with_averaged_weights");
  require_whole();
  replicas_->adopt();
  if (!collective_) collective_ = make_collective();
  device::begin_step(options_.where.devices.front().kind, steps_);
  for (const Tower& tower : towers_)  // should the caller have run a backward of its own
    strategy::drop_gradients((*replicas_)[tower.place].tensors.trainable);
  Tower* const failed = first_to_fail([&](Tower& tower) {
    tower.begin_step(collective_->waited(tower.index));
    job(tower);
    tower.clock.stop(collective_->waited(tower.index));
  });
  if (!failed) return;
  const Stage stage = failed->clock.stage();
  torn_ = stage == Stage::update || replicas_->weights_written();
  try {
    replicas_->recover();
  } catch (...) {  // the error that counts is the tower's
  }
  for (Tower& each : towers_) {
    each.gradients.clear();
    strategy::drop_gradients((*replicas_)[each.place].tensors.trainable);
  }
  fail(*failed, strategy::name_of(stage));
}

/// Runs `job` on all towers; the first that fails frees the others. Null when none does.
Engine::Tower* Engine::first_to_fail(const std::function<void(Tower&)>& job) {
  collective_->reset();
  std::atomic<Tower*> failed = nullptr;
  pool_->run([&](int place) {
    if (!tower_at(place)) return;
    try {
      job(*tower_at(place));
    } catch (const collective::Aborted&) {
    } catch (...) {
      keep_first(failed, *tower_at(place));
      collective_->abort();
    }
  });
  return failed;
}

/// Notes the exception at work as `tower`'s, unless another tower was first.
void Engine::keep_first(std::atomic<Tower*>& failed, Tower& tower) {
  Tower* none = nullptr;
  if (failed.compare_exchange_strong(none, &tower)) tower.error = std::current_exception();
}

/// A tower may have been the one to notice that another's device is lost: that one is named.
void Engine::fail(Tower& tower, const std::string& stage) {
  std::string device = tower.device.name();
  const int at = tower.shard;
  for (Tower& each : towers_) each.shard = -1;
  int shard = at;
  const std::exception_ptr error = std::exchange(tower.error, nullptr);
  try {
    std::rethrow_exception(error);
  } catch (const DeviceLost& lost) {
    if (lost.device != device) shard = -1;
    device = lost.device;
  } catch (...) {
  }
  throw TowerError(device, steps_, shard, stage, error);
}

}  // namespace lockstep::detail
