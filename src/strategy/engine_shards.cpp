#include <c10/core/StreamGuard.h>

#include <cmath>
#include <utility>

#include "device/accelerator.h"
#include "device/autocast.h"
#include "device/device_scope.h"
#include "device/random_stream.h"
#include "strategy/engine.h"

namespace lockstep::detail {

using strategy::Stage;

std::shared_ptr<Staging> Engine::stage(const ShardWork& work) {
  auto staging = std::make_shared<Staging>();
  staging->shards.resize(static_cast<std::size_t>(options_.method.shards));
  pool_->run([&](int place) {
    if (!tower_at(place)) return;
    try {
      load_shards(*tower_at(place), work, *staging);
    } catch (...) {
      tower_at(place)->shard = -1;
      // When a device fails, the step notices, and may be replayed without the device.
      if (!is_device_failure(std::current_exception())) throw;
    }
  });
  return staging;
}

/// Loads what is not there yet of a tower's shards; on an accelerator beside what it computes.
void Engine::load_shards(Tower& tower, const ShardWork& work, Staging& staging) {
  const torch::Device device = device_of(tower.place);
  const c10::Stream compute = device::current_stream(tower.device);
  const c10::StreamGuard beside(
      input_streams_.empty() ? compute : input_streams_[static_cast<std::size_t>(tower.place)]);
  for (int number = tower.shards.first; number < tower.shards.end; ++number) {
    Staging::Shard& shard = staging.shards[static_cast<std::size_t>(number)];
    if (shard.place == tower.place) continue;
    tower.shard = number;
    shard.place = -1;
    shard.rows = work.load(number, device);
    if (!input_streams_.empty()) {
      work.record(number, compute);
      shard.arrived = std::make_unique<c10::Event>(compute.device_type());
      shard.arrived->record(beside.current_stream());
    }
    shard.place = tower.place;
  }
  tower.shard = -1;
}

void Engine::run_shards(Tower& tower, const ShardWork& work) {
  Staging own;
  own.shards.resize(static_cast<std::size_t>(options_.method.shards));
  Staging& staging = work.staging ? *work.staging : own;
  check(staging.shards.size() == own.shards.size(), "the batch was staged for other shards");
  load_shards(tower, work, staging);
  const auto shard_at = [&](int number) -> Staging::Shard& {
    return staging.shards[static_cast<std::size_t>(number)];
  };
  for (int number = tower.shards.first; number < tower.shards.end; ++number)
    if (shard_at(number).rows != 0) tower.last_shard = number;
  // An empty shard at the end still moves sums up the tree: nothing is complete before it.
  if (tower.last_shard != tower.shards.end - 1) tower.last_shard = -1;
  tower.pending.assign(buckets_.size(), 0);
  for (const auto& buckets : buckets_of_)
    for (const std::size_t bucket : buckets) ++tower.pending[bucket];
  for (int number = tower.shards.first; number < tower.shards.end; ++number) {
    if (collective_->aborted()) throw collective::Aborted();
    tower.shard = number;
    run_shard(tower, work, shard_at(number));
  }
  read_losses(tower);
  tower.shard = -1;
  tower.loss_terms = tower.losses;
  tower.weight_terms = tower.weights;
}

void Engine::run_shard(Tower& tower, const ShardWork& work, const Staging::Shard& shard) {
  tower.weights.push_back(0);
  if (shard.rows == 0) {
    tower.loss_sums.push_back(torch::Tensor());
    return tower.gradients.finish(tower.shard);
  }
  enter(tower, Stage::forward);
  if (shard.arrived) shard.arrived->block(device::current_stream(tower.device));
  replicas_->begin_shard(tower.place);
  ++tower.computed;
  if (shard.rows < 0)
    tower.rows.reset();
  else if (tower.rows)
    *tower.rows += shard.rows;
  if (audits_) replicas_->begin_audit(tower.place);
  compute_gradients(tower, work);
  if (audits_) replicas_->end_audit(tower.place);
  replicas_->check_shard(tower.place);
  tower.gradients.finish(tower.shard);
  tower.buffers.push_back(replicas_->copy_buffers(tower.place));
}

/// Forward and backward of a shard. Nothing of its graph is left afterwards.
void Engine::compute_gradients(Tower& tower, const ShardWork& work) {
  tower.generator.set_current_seed(device::stream_seed(options_.method.seed, steps_, tower.shard));
  const device::RandomScope random(tower.generator);
  const device::DeviceScope scope(device_of(tower.place));
  tower.taken.assign(seats_.size(), torch::Tensor());
  tower.accumulated.assign(seats_.size(), 0);
  const Loss loss = forward(tower, work);
  tower.loss_sums.push_back(loss.sum.detach());
  tower.weights.back() = loss.weight;
  if (loss.sum.is_cpu()) {  // known at once, and a bad one spares the rest
    read_losses(tower);
    if (!std::isfinite(tower.losses.back())) return;
  }

  enter(tower, Stage::backward);
  if (loss.sum.requires_grad())
    (loss_scale_.value() == 1 ? loss.sum : loss.sum * loss_scale_.value()).backward();
  if (options_.method.clip.per_shard_norm == 0 || loss.weight == 0) return;
  strategy::clip_to_norm(tower.taken, loss.weight * loss_scale_.value(),
                         options_.method.clip.per_shard_norm);
  for (std::size_t parameter = 0; parameter < tower.taken.size(); ++parameter)
    if (tower.taken[parameter].defined())
      add_gradient(tower, parameter, std::move(tower.taken[parameter]));
}

Loss Engine::forward(Tower& tower, const ShardWork& work) {
  const device::AutocastScope autocast(device_of(tower.place).type(), options_.method.precision);
  return work.forward(tower.place, tower.shard);
}

/// Reads from the device the losses that were not read before.
void Engine::read_losses(Tower& tower) {
  const auto first = static_cast<int>(tower.losses.size());
  for (std::size_t i = tower.losses.size(); i < tower.loss_sums.size(); ++i)
    tower.losses.push_back(tower.loss_sums[i].defined() ? tower.loss_sums[i].item<double>() : 0);
  if (options_.method.non_finite == NonFinite::skip) return;
  for (int i = first; i < static_cast<int>(tower.losses.size()); ++i) {
    const double loss = tower.losses[static_cast<std::size_t>(i)];
    if (std::isfinite(loss)) continue;
    tower.shard = tower.shards.first + i;
    throw NonFiniteError("the loss is " + std::to_string(loss));
  }
}

/// Autograd has accumulated the gradient of a parameter: called in the middle of backward, and on
/// an accelerator by autograd's thread of that device.
void Engine::gradient_ready(int place, std::size_t parameter) {
  Tower* tower = tower_at(place);
  if (!tower || tower->shard < 0) return;  // a backward of the caller's own
  if (tower->clock.stage() != Stage::backward)
    throw ConfigError("the loss function called backward(), and parameter '" +
                      seats_[parameter]->name +
                      "' got a gradient; return the loss, all of its parts added up, and leave "
                      "backward() to Lockstep.");
  if (std::exchange(tower->accumulated[parameter], char{1}))
    throw ConfigError("parameter '" + seats_[parameter]->name +
                      "' got two gradients in one shard: a function of the model runs a backward "
                      "of its own on it; use torch::autograd::grad there.");
  torch::Tensor& tensor = (*replicas_)[place].tensors.trainable[parameter].tensor;
  torch::Tensor gradient = strategy::take_gradient(tensor, *seats_[parameter]);
  if (options_.method.clip.per_shard_norm > 0)
    tower->taken[parameter] = std::move(gradient);
  else
    add_gradient(*tower, parameter, std::move(gradient));
}

/// Adds a shard's gradient to the tower's tree. With the last shard's, buckets get complete.
void Engine::add_gradient(Tower& tower, std::size_t parameter, torch::Tensor gradient) {
  tower.gradients.add(tower.shard, parameter, std::move(gradient));
  if (tower.shard != tower.last_shard || !tower.exchanges) return;
  for (const std::size_t bucket : buckets_of_[parameter])
    if (--tower.pending[bucket] == 0)
      collective_->post(tower.index, bucket, tower.gradients.sums());
}

}  // namespace lockstep::detail
