#include "strategy/shard_runner.h"

#include <c10/core/StreamGuard.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "device/accelerator.h"
#include "strategy/shard_scope.h"

namespace lockstep::strategy {
namespace {

/// Calls a function when autograd has accumulated a gradient.
class ReadyHook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit ReadyHook(std::function<void()> ready) : ready_(std::move(ready)) {}
  void operator()(const torch::autograd::Variable&) override { ready_(); }

 private:
  std::function<void()> ready_;
};

}  // namespace

ShardRunner::ShardRunner(const Method& method, Replicas& replicas, const ParameterMap& map,
                         Towers& towers)
    : method_(method), replicas_(replicas), map_(map), towers_(towers) {
  for (const Place place : replicas_.places()) {
    if (device::is_accelerator(towers_.device(place).kind))
      input_streams_.push_back(device::new_stream(towers_.device(place)));
    for (std::size_t i = 0; i < map_.seats.size(); ++i) {
      const torch::Tensor& tensor = replicas_[place].tensors.trainable[i].tensor;
      names_.name(tensor, map_.seats[i]->name);
      torch::autograd::impl::set_post_acc_grad_hooks(
          tensor, std::make_unique<ReadyHook>([this, place, i] { gradient_ready(place, i); }));
    }
  }
}

ShardRunner::~ShardRunner() {
  for (const Replica& replica : replicas_.all())  // the caller may keep the model's tensors
    for (const arena::Entry& entry : replica.tensors.trainable)
      torch::autograd::impl::set_post_acc_grad_hooks(entry.tensor, nullptr);
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

/// Loads what is not there yet of a tower's shards; on an accelerator beside what it computes.
void ShardRunner::load(Tower& tower, detail::Shards& shards) {
  const torch::Device device = device::torch_device(tower.device);
  const c10::Stream compute = device::current_stream(tower.device);
  const c10::StreamGuard beside(input_streams_.empty() ? compute
                                                       : input_streams_[tower.place.index()]);
  for (int number = tower.shards.first; number < tower.shards.end; ++number) {
    detail::Shards::Shard& shard = shards.at(number);
    if (shard.device == device) continue;
    tower.shard = number;
    shard.device.reset();
    shard.rows = shards.load(number, device);
    if (!input_streams_.empty()) {
      shards.record(number, compute);
      shard.arrived = std::make_unique<c10::Event>(compute.device_type());
      shard.arrived->record(beside.current_stream());
    }
    shard.device = device;
  }
  tower.shard = -1;
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
  read_losses(tower);
  tower.scripts.check(replicas_[tower.place].tensors);
  for (const Loss& loss : tower.brought) tower.results.push_back(read(loss));
  tower.loss_terms = tower.losses;
  tower.weight_terms = tower.weights;
  tower.counting_terms = tower.counting;
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
    tower.loss_sums.push_back(torch::Tensor());
    tower.weights.push_back(0);
    tower.counting.push_back(0);
    return tower.gradients.finish(tower.shard);
  }
  {
    Loss loss = in_scope(tower, method_, tower.shard,
                         [&] { return work.forward(tower.place, tower.shard); });
    if (keep(tower, loss)) {
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
  ++tower.computed;
  if (shard.rows < 0)
    tower.rows.reset();
  else if (tower.rows)
    *tower.rows += shard.rows;
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
  double weight = std::isinf(tower.weights.back()) ? 1 : tower.weights.back();
  if (tower.counting.back() > 0) weight = std::max(weight, 1.0);
  if (limit > 0 && weight > 0)
    clip_to_norm(tower.taken, weight * tower.pass.loss_scale, limit);
  else
    tower.taken.clear();
}

/// Keeps what a loss function returned, but for its graph. False when the loss is known to be bad,
/// which spares the rest.
bool ShardRunner::keep(Tower& tower, Loss& loss) const {
  const bool total = loss.divisor == Loss::Divisor::nothing;
  tower.loss_sums.push_back(loss.sum.detach());
  tower.weights.push_back(total ? std::numeric_limits<double>::infinity() : loss.weight);
  tower.counting.push_back(loss.counts_without_weight ? 1 : 0);
  if (!loss.metrics.empty() || !loss.outputs.empty())
    tower.brought.push_back(
        {.metrics = std::move(loss.metrics), .outputs = std::move(loss.outputs)});
  if (!loss.sum.is_cpu() && !tower.in_head) return true;
  read_losses(tower);
  return std::isfinite(tower.losses.back());
}

void ShardRunner::backward(Tower& tower, const std::vector<torch::Tensor>& roots,
                           const std::vector<torch::Tensor>& slopes) const {
  const device::RandomScope random(tower.generator);
  const device::DeviceScope scope(device::torch_device(tower.device));
  tower.taken.assign(map_.seats.size(), torch::Tensor());
  tower.accumulated.assign(map_.seats.size(), 0);
  torch::autograd::backward(roots, slopes);
}

/// Reads from the device the losses that were not read before.
void ShardRunner::read_losses(Tower& tower) const {
  const std::size_t first = tower.losses.size();
  for (std::size_t i = first; i < tower.loss_sums.size(); ++i)
    tower.losses.push_back(tower.loss_sums[i].defined() ? tower.loss_sums[i].item<double>() : 0);
  if (method_.non_finite == NonFinite::skip) return;
  for (std::size_t i = first; i < tower.losses.size(); ++i) {
    if (std::isfinite(tower.losses[i])) continue;
    tower.shard = tower.in_head ? -1 : tower.shards.first + static_cast<int>(i);
    throw NonFiniteError("the loss is " + std::to_string(tower.losses[i]));
  }
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
  if (tower->clock.stage() != Stage::backward)
    throw ConfigError("the loss function called backward(), and parameter '" + seat.name +
                      "' got a gradient; return the loss, all of its parts added up, and leave "
                      "backward() to Lockstep.");
  if (std::exchange(tower->accumulated[parameter], char{1}))
    throw ConfigError("parameter '" + seat.name +
                      "' got two gradients in one shard: a function of the model runs a backward "
                      "of its own on it; use torch::autograd::grad there.");
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
