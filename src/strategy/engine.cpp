#include "strategy/engine.h"

#include <algorithm>
#include <cmath>

#include "device/random_stream.h"

namespace lockstep::detail {

using strategy::Stage;
using strategy::Tower;

// One step on one tower: the whole algorithm. Only the calls of the collective cross towers.
Engine::Outcome Engine::train(Tower& tower, const ShardWork& work) {
  Outcome outcome;
  run_shards(tower, work);  // forward and backward of its shards, gradients summed up the tree

  enter(tower, Stage::reduce);
  outcome.weight = collective_->sum(tower.index, tower.weights);
  outcome.loss = collective_->sum(tower.index, tower.losses) / outcome.weight;
  if (!std::isfinite(outcome.loss)) return outcome;  // weightless, or not finite and to be skipped
  collective_->reduce(tower.index, tower.gradients.sums(), outcome.weight, tower.slices);

  double squares = 0;
  for (const auto& slice : tower.slices) squares += collective_->sum(tower.index, slice.squares);
  outcome.norm = std::sqrt(squares);
  if (!acceptable(tower, outcome.norm)) return outcome;
  const double limit = options_.clip.global_norm;
  outcome.clipped = limit > 0 && outcome.norm > limit;

  enter(tower, Stage::update);
  const optim::Moment moment{.updates = updates_,
                             .clip_factor = outcome.clipped ? limit / outcome.norm : 1,
                             .average_keep = average_keep()};
  for (optim::SliceUpdate& slice : tower.updates) slice.apply(options_.optimizer, moment);
  collective_->gather(tower.index);
  outcome.applied = true;
  return outcome;
}

void Engine::run_shards(Tower& tower, const ShardWork& work) {
  for (int shard = tower.first_shard; shard < tower.end_shard; ++shard) {
    if (collective_->aborted()) throw collective::Aborted();
    tower.shard = shard;
    run_shard(tower, work);
  }
  tower.shard = -1;
}

void Engine::run_shard(Tower& tower, const ShardWork& work) {
  enter(tower, Stage::input);
  const std::int64_t rows = work.load(tower.index, tower.shard);
  tower.losses.push_back(0);
  tower.weights.push_back(0);
  if (rows == 0) return tower.gradients.finish(tower.shard);
  replicas_->begin_shard(tower.index);
  ++tower.shards;
  tower.rows += std::max<std::int64_t>(rows, 0);

  enter(tower, Stage::forward);
  tower.generator.set_current_seed(device::stream_seed(options_.seed, steps_, tower.shard));
  const device::RandomScope random(tower.generator);
  const Loss loss = work.forward(tower.index);
  tower.losses.back() = loss.sum.item<double>();
  tower.weights.back() = loss.weight;
  if (!std::isfinite(tower.losses.back())) {
    if (options_.non_finite == NonFinite::skip) return;
    throw NonFiniteError("the loss is " + std::to_string(tower.losses.back()));
  }

  enter(tower, Stage::backward);
  if (loss.sum.requires_grad()) loss.sum.backward();
  auto gradients =
      strategy::take_gradients((*replicas_)[tower.index].tensors.trainable, replicas_->layouts());
  if (options_.clip.per_shard_norm > 0 && loss.weight > 0)
    strategy::clip_to_norm(gradients, loss.weight, options_.clip.per_shard_norm);
  tower.gradients.add(tower.shard, std::move(gradients));
  tower.buffers.push_back(replicas_->end_shard(tower.index));
}

/// Whether a step with this gradient norm is to be applied. All towers come to the same answer; to
/// refuse the step, the one that has the bad shard throws.
bool Engine::acceptable(Tower& tower, double norm) {
  if (std::isfinite(norm)) return true;
  if (options_.non_finite == NonFinite::skip) return false;
  const int shard = tower.gradients.non_finite_shard();
  tower.culprits.assign(1, shard >= 0 ? 1.0 : 0.0);
  const double culprits = collective_->sum(tower.index, tower.culprits);
  if (shard >= 0 || (culprits == 0 && tower.index == 0)) {
    tower.shard = shard;
    throw NonFiniteError(shard >= 0 ? "the gradient is not finite"
                                    : "the sum of the gradients is not finite");
  }
  return false;
}

double Engine::average_keep() const {
  if (!options_.moving_average) return 0;
  const auto step = static_cast<double>(updates_);
  const auto [decay, warm_up] = *options_.moving_average;
  return warm_up ? std::min(decay, (1 + step) / (10 + step)) : decay;
}

void Engine::enter(Tower& tower, Stage stage) {
  tower.clock.enter(stage, collective_->waited(tower.index));
}

StepReport Engine::step(const ShardWork& work) {
  Outcome outcome;
  run_towers([&](Tower& tower) {
    const Outcome own = train(tower, work);
    if (tower.index == 0) outcome = own;
  });
  if (outcome.applied) {
    std::vector<std::vector<torch::Tensor>> buffers;
    for (Tower& tower : towers_)
      std::move(tower.buffers.begin(), tower.buffers.end(), std::back_inserter(buffers));
    torn_ = true;  // until the buffers follow the weights
    replicas_->set_buffers(buffers);
    torn_ = false;
    ++updates_;
  } else {
    replicas_->restore_buffers();
  }
  StepReport result = report(outcome);
  ++steps_;
  return result;
}

StepReport Engine::compute(const ShardWork& work) {
  run_towers([&](Tower& tower) { run_shards(tower, work); });
  replicas_->restore_buffers();
  Mean loss;
  for (const Tower& tower : towers_) loss += tower.loss();
  return report({.loss = loss.value(), .weight = loss.weight});
}

void Engine::require_whole() const {
  check(!torn_, "a tower failed while applying a step: the weights are lost, make the towers anew");
}

/// Runs `job` on all towers. When one fails the others are freed, what the step has left is cleared
/// away, and the first error comes out as a TowerError.
void Engine::run_towers(const std::function<void(Tower&)>& job) {
  check(!averaged_, "no step inside with_averaged_weights");
  require_whole();
  replicas_->adopt();
  std::atomic<Tower*> failed = nullptr;
  pool_->run([&](int index) {
    Tower& tower = towers_[static_cast<std::size_t>(index)];
    tower.begin_step(collective_->waited(index));
    try {
      job(tower);
      tower.clock.stop(collective_->waited(index));
    } catch (const collective::Aborted&) {
    } catch (...) {
      keep_first(failed, tower);
      collective_->abort();
    }
  });
  if (!failed) return;
  const Stage stage = failed.load()->clock.stage();
  torn_ = stage == Stage::update;
  replicas_->restore_buffers();
  for (Tower& each : towers_) {
    each.gradients.clear();
    strategy::drop_gradients((*replicas_)[each.index].tensors.trainable);
  }
  collective_->reset();
  fail(*failed, strategy::name_of(stage));
}

/// Notes the exception at work as `tower`'s, unless another tower was first.
void Engine::keep_first(std::atomic<Tower*>& failed, Tower& tower) {
  Tower* none = nullptr;
  if (failed.compare_exchange_strong(none, &tower)) tower.error = std::current_exception();
}

void Engine::fail(Tower& tower, const std::string& stage) const {
  throw TowerError(pool_->device(tower.index).name(), steps_, tower.shard, stage,
                   std::exchange(tower.error, nullptr));
}

}  // namespace lockstep::detail
