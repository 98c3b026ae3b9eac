#include "strategy/shard_runner.h"

#include <utility>

#include "device/accelerator.h"
#include "strategy/ready_hook.h"
#include "strategy/shard_input.h"
#include "strategy/shard_losses.h"
#include "strategy/shard_scope.h"

namespace lockstep::strategy {
ShardRunner::ShardRunner(const Method& method, Replicas& replicas, const ParameterMap& map,
                         Towers& towers)
    : method_(method), replicas_(replicas), map_(map), towers_(towers) {
  for (const Place place : replicas_.places()) {
    if (device::is_accelerator(towers_.device(place).kind))
      input_streams_.push_back(device::new_stream(towers_.device(place)));
    for (std::size_t i = 0; i < map_.seats.size(); ++i) {
      const torch::Tensor& tensor = replicas_[place].tensors.trainable[i].tensor;
      names_.name(tensor, map_.seats[i]->name);
      call_when_ready(tensor, [this, place, i] { gradient_ready(place, i); });
    }
  }
}

ShardRunner::~ShardRunner() {
  for (const Replica& replica : replicas_.all())  // the caller may keep the model's tensors
    call_no_more(replica.tensors.trainable);
}

void ShardRunner::stage(detail::Shards& shards) {
  const Towers::Job job = [&](Tower& tower) {
    try {
      load(tower, shards);
    } catch (...) {
      tower.shard = -1;
      if (!is_device_failure(std::current_exception())) throw;
    }
  };
  if (!input_streams_.empty()) return towers_.run(job);
  for (Tower& tower : towers_) job(tower);  // views: not worth waking the towers
}

void ShardRunner::load(Tower& tower, detail::Shards& shards) {
  load_shards(tower, shards,
              input_streams_.empty() ? nullptr : &input_streams_[tower.place.index()]);
}

void ShardRunner::run(Tower& tower, const detail::ShardWork& work) {
  check(work.shards.count() == method_.shards, "the batch was staged for other shards");
  load(tower, work.shards);
  count_pending(tower, work.shards);
  const Scripts::Scope noting(tower.scripts);
  if (work.head)
    run_whole_batch(tower, work);
  else
    for_each_shard(tower, [&] { run_shard(tower, work); });
  read_losses(tower, method_);
  tower.scripts.check(replicas_[tower.place].tensors);
  bring_losses(tower);
}

/// Finds out when the tower's buckets will be complete.
void ShardRunner::count_pending(Tower& tower, detail::Shards& shards) const {
  // An empty shard at the end still moves sums up the tree: nothing is complete before it.
  const int last = tower.shards.end - 1;
  if (tower.shards.size() > 0 && shards.at(last).rows != 0) tower.last_shard = last;
  tower.pending.assign(map_.buckets.size(), 0);
  for (std::size_t i = 0; i < map_.buckets_of.size(); ++i)
    if (tower.pass.selected[i])
      for (const std::size_t bucket : map_.buckets_of[i]) ++tower.pending[bucket];
}

/// A loss of one shard. Nothing of its graph is left afterwards.
void ShardRunner::run_shard(Tower& tower, const detail::ShardWork& work) {
  if (!begin_shard(tower, work.shards)) {
    keep_nothing(tower);
    return tower.gradients.finish(tower.shard);
  }
  {
    Loss loss = in_scope(tower, method_, tower.shard,
                         [&] { return work.forward(tower.place, tower.shard); });
    if (keep(tower, loss, method_)) {
      tower.enter(Stage::backward);
      if (loss.sum.requires_grad()) backward(tower, {scaled(loss.sum, tower.pass)}, {});
      clip(tower);
    }
  }
  end_forward(tower);
  end_shard(tower);
}

/// False when the shard is empty.
bool ShardRunner::begin_shard(Tower& tower, detail::Shards& shards) {
  const detail::Shards::Shard& shard = shards.at(tower.shard);
  if (shard.rows == 0) return false;
  tower.enter(Stage::forward);
  if (shard.arrived) shard.arrived->block(device::current_stream(tower.device));
  replicas_.begin_shard(tower.place);
  count_shard(tower, shard.rows);
  if (tower.pass.audits) replicas_.begin_audit(tower.place);
  return true;
}

/// Buffers are what the shard made of them.
void ShardRunner::end_forward(Tower& tower) {
  if (tower.pass.audits) replicas_.end_audit(tower.place);
  replicas_.check_shard(tower.place);
  tower.buffers.push_back(replicas_.copy_buffers(tower.place));
}

/// No gradient of the shard is to come.
void ShardRunner::end_shard(Tower& tower) {
  for (std::size_t parameter = 0; parameter < tower.taken.size(); ++parameter)
    if (tower.taken[parameter].defined())
      add_gradient(tower, parameter, std::move(tower.taken[parameter]));
  tower.gradients.finish(tower.shard);
}

/// Clips the gradient of one shard, where the method says so.
void ShardRunner::clip(Tower& tower) const {
  const double limit = method_.clip.per_shard_norm;
  const double weight = clip_weight(tower, tower.weights.size() - 1);
  if (limit > 0 && weight > 0)
    clip_to_norm(tower.taken, weight * tower.pass.loss_scale, limit);
  else
    tower.taken.clear();
}

void ShardRunner::backward(Tower& tower, const std::vector<torch::Tensor>& roots,
                           const std::vector<torch::Tensor>& slopes) const {
  const device::RandomScope random(tower.generator);
  const device::DeviceScope scope(device::torch_device(tower.device));
  tower.taken.assign(map_.seats.size(), torch::Tensor());
  tower.accumulated.assign(map_.seats.size(), 0);
  torch::autograd::backward(roots, slopes);
}

/// Autograd has accumulated the gradient of a parameter: called in the middle of backward, and on
/// an accelerator by autograd's thread of that device.
void ShardRunner::gradient_ready(Place place, std::size_t parameter) {
  Tower* tower = towers_.at(place);
  const arena::Seat& seat = *map_.seats[parameter];
  if (tower && tower->in_head)
    throw ConfigError("the head of the loss over the whole batch uses parameter '" + seat.name +
                      "'; use parameters in rows(model, shard) only.");
  if (!tower || tower->shard < 0) return;  // a backward of the caller's own
  note_ready(*tower, parameter, seat.name, "the loss function");
  torch::Tensor gradient =
      take_gradient(replicas_[place].tensors.trainable[parameter].tensor, seat);
  if (method_.clip.per_shard_norm > 0)
    tower->taken[parameter] = std::move(gradient);
  else
    add_gradient(*tower, parameter, std::move(gradient));
}

/// Adds a shard's gradient to the tower's tree. With the last shard's, buckets get complete.
void ShardRunner::add_gradient(Tower& tower, std::size_t parameter, torch::Tensor gradient) const {
  tower.gradients.add(tower.shard, parameter, std::move(gradient));
  if (tower.shard != tower.last_shard || !tower.pass.exchanges) return;
  for (const std::size_t bucket : map_.buckets_of[parameter])
    if (--tower.pending[bucket] == 0)
      tower.collective->post(tower.rank, bucket, tower.gradients.sums());
}

}  // namespace lockstep::strategy
