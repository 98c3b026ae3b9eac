#include "strategy/pipeline/stage_runner.h"

#include <lockstep/sim.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "device/accelerator.h"
#include "strategy/pipeline/schedule.h"
#include "strategy/ready_hook.h"
#include "strategy/shard_input.h"
#include "strategy/shard_losses.h"
#include "strategy/shard_scope.h"

namespace lockstep::strategy {
namespace {

/// Where a backward ends: the gradient of a tensor that came from the stage before, as it is when a
/// whole backward would go on with it. No leaf: autograd would lay out a leaf's gradient anew.
class Inlet : public torch::autograd::Node {
 public:
  explicit Inlet(std::shared_ptr<torch::Tensor> slope) : slope_(std::move(slope)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& slopes) override {
    *slope_ = std::move(slopes[0]);
    return {};
  }

 private:
  std::shared_ptr<torch::Tensor> slope_;
};

/// The tensors that came in, each the end of a graph to be, and where their gradients will be.
std::vector<torch::Tensor> inlets(const Handed& in,
                                  std::vector<std::shared_ptr<torch::Tensor>>& slopes) {
  std::vector<torch::Tensor> tensors;
  std::unordered_map<const void*, std::size_t> first;  // what is one tensor gets one gradient
  slopes.clear();
  for (std::size_t i = 0; i < in.tensors.size(); ++i) {
    const torch::Tensor& source = in.tensors[i];
    slopes.push_back(std::make_shared<torch::Tensor>());
    tensors.push_back(source);
    if (!source.defined() || !in.differentiable[i]) continue;
    const auto [known, fresh] = first.emplace(source.unsafeGetTensorImpl(), i);
    if (fresh) {
      tensors[i] = source.detach();
      torch::autograd::set_history(tensors[i], c10::make_intrusive<Inlet>(slopes[i]));
    } else {
      tensors[i] = tensors[known->second];
    }
  }
  return tensors;
}

/// Without their graphs; what is one tensor stays one.
std::vector<torch::Tensor> detached(const std::vector<torch::Tensor>& tensors) {
  std::unordered_map<const void*, torch::Tensor> known;
  std::vector<torch::Tensor> result;
  for (const torch::Tensor& tensor : tensors) {
    torch::Tensor& own = known[tensor.unsafeGetTensorImpl()];
    if (tensor.defined() && !own.defined()) own = tensor.detach();
    result.push_back(own);
  }
  return result;
}

Handed no_rows() {
  Handed handed;
  handed.empty = true;
  return handed;
}

torch::Tensor state_of(at::Generator generator) {
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator generator, const torch::Tensor& state) {
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

/// Calls `work` with random numbers from where `random` has come, and takes that on.
template <class Work>
void with_random(Tower& tower, RandomState& random, const Work& work) {
  if (random.device.defined()) set_state(tower.generator, random.device);
  {
    const device::RandomScope scope(tower.generator);
    const at::Generator cpu = device::current_scope()->cpu_generator;
    const bool apart = device::is_accelerator(tower.device.kind);
    if (apart && random.cpu.defined()) set_state(cpu, random.cpu);
    work();
    if (apart) random.cpu = state_of(cpu);
  }
  random.device = state_of(tower.generator);
}

}  // namespace

void StageRunner::load(StageTower& at, detail::Shards& shards) const {
  load_shards(at.tower, shards, at.input_stream);
}

void StageRunner::run(StageTower& at, const detail::StageWork& work) const {
  Tower& tower = at.tower;
  if (work.takes_batch[at.stage_index()]) load(at, *work.shards[at.stage_index()]);
  const Scripts::Scope noting(tower.scripts);
  for (const StageItem& item :
       one_forward_one_backward(at.stage, stages_, tower.shards.size(), ahead_)) {
    tower.shard = tower.shards.first + item.shard;
    at.module_at_work = at.modules[static_cast<std::size_t>(item.shard) % at.modules.size()];
    item.forward ? forward(at, work) : backward(at, work);
  }
  tower.shard = -1;
  check_scripts(at);
  at.enter(Stage::wait);
  if (is_last(at)) read_losses(tower, method_);
  bring_losses(tower);
  for (Flats& flats : at.last_buffers)
    for (torch::Tensor& flat : flats) flat = flat.cpu();
}

/// Of all models in flight at the tower.
void StageRunner::check_scripts(StageTower& at) const {
  if (!at.tower.scripts.any()) return;
  arena::Tensors known;
  const auto add = [](std::vector<arena::Entry>& to, const std::vector<arena::Entry>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const Place place : at.modules) {
    const arena::Tensors& own = models_[place].tensors;
    add(known.trainable, own.trainable);
    add(known.frozen, own.frozen);
    add(known.buffers, own.buffers);
  }
  at.tower.scripts.check(known);
}

/// What comes from the stage before; at the first one, how many rows there are.
Handed StageRunner::receive(StageTower& at, const detail::StageWork& work) const {
  if (at.from_before) return at.from_before->take(at.tower.shard);
  Handed in;
  in.rows = work.shards.front()->at(at.tower.shard).rows;
  in.empty = in.rows == 0;
  in.buffers = at.memory->start;
  return in;
}

void StageRunner::forward(StageTower& at, const detail::StageWork& work) const {
  Tower& tower = at.tower;
  Flight& flight =
      at.flights[static_cast<std::size_t>(tower.shard - tower.shards.first) % at.flights.size()];
  flight = {};
  at.enter(Stage::wait, tower.shard);
  flight.in = receive(at, work);
  flight.empty = flight.in.empty;
  if (flight.empty) {
    if (at.to_next) at.to_next->put(tower.shard, no_rows());
    if (is_last(at)) keep_nothing(tower);
    return;
  }
  if (work.takes_batch[at.stage_index()])
    if (const auto& arrived = work.shards[at.stage_index()]->at(tower.shard).arrived)
      arrived->block(device::current_stream(tower.device));
  at.enter(Stage::forward, tower.shard);
  Replica& model = models_[at.module_at_work];
  model.watch.begin_shard(model.tensors);
  count_shard(tower, flight.in.rows);
  if (at.stage == 0)
    tower.generator.set_current_seed(
        device::stream_seed(method_.seed, tower.pass.step, tower.shard));
  RandomState random = flight.in.random;
  flight.begin = random;
  if (recompute_ && at.stage == 0) flight.begin.device = state_of(tower.generator);
  Loss loss = compute(at, work, flight, random);
  if (is_last(at)) {
    flight.lost = !keep(tower, loss, method_);
    flight.outputs = {loss.sum};
    flight.in.random = std::move(random);
    flight.in.random.cpu = torch::Tensor();  // backward begins anew
    Flats copies;
    for (const torch::Tensor& flat : model.buffers) copies.push_back(flat.clone());
    at.last_buffers.push_back(std::move(copies));
    return;
  }
  Handed out;
  out.rows = flight.in.rows;
  out.tensors = detached(flight.outputs);
  for (const torch::Tensor& output : flight.outputs)
    out.differentiable.push_back(output.defined() && output.requires_grad());
  out.rest = std::move(flight.rest);
  out.buffers = model.buffers;
  out.random = std::move(random);
  at.to_next->put(tower.shard, std::move(out));
  if (recompute_)
    flight.outputs.clear();  // and their graphs
  else
    flight.in = {};
}

/// Runs the stage's function; its outputs are in `flight`, the loss of the last stage is returned.
Loss StageRunner::compute(StageTower& at, const detail::StageWork& work, Flight& flight,
                          RandomState& random) const {
  Tower& tower = at.tower;
  {
    const torch::NoGradGuard no_grad;
    copy_all(models_[at.module_at_work].buffers, flight.in.buffers);
  }
  const torch::Device device = device::torch_device(tower.device);
  detail::Shards& shards = *work.shards[at.stage_index()];
  Loss loss;
  with_random(tower, random, [&] {
    const device::DeviceScope scope(device);
    const device::AutocastScope autocast(device.type(), method_.precision);
    detail::Crossing in{inlets(flight.in, flight.slopes), flight.in.rest};
    try {
      if (is_last(at)) {
        loss = work.last(at.module_at_work, shards, tower.shard, flight.in.rows, std::move(in));
      } else {
        detail::Crossing out =
            work.parts[at.stage_index()](at.module_at_work, shards, tower.shard, std::move(in));
        flight.outputs = std::move(out.tensors);
        flight.rest = std::move(out.rest);
      }
    } catch (const c10::Error& error) {
      rethrow(error);
    } catch (const sim::MixedDevices& error) {
      throw ConfigError(std::string(error.what()) +
                        ". A stage's device has the parameters that the stage used in the first "
                        "step, and all buffers: use the others through what crosses, and register "
                        "other tensors of the model as buffers.");
    }
  });
  return loss;
}

void StageRunner::backward(StageTower& at, const detail::StageWork& work) const {
  Tower& tower = at.tower;
  Flight flight = std::move(
      at.flights[static_cast<std::size_t>(tower.shard - tower.shards.first) % at.flights.size()]);
  if (flight.empty) {
    if (method_.clip.per_shard_norm == 0) tower.gradients.finish(tower.shard);
    return;
  }
  Handed back;
  if (!is_last(at)) {
    at.enter(Stage::wait, tower.shard);
    back = at.from_next->take(tower.shard);
  } else {
    back.random = flight.in.random;
  }
  at.enter(Stage::backward, tower.shard);
  std::vector<torch::Tensor> roots, slopes;
  if (is_last(at)) {
    if (!flight.lost && flight.outputs[0].requires_grad())
      roots.push_back(scaled(flight.outputs[0], tower.pass));
  } else {
    if (recompute_) {
      RandomState again = flight.begin;
      compute(at, work, flight, again);
    }
    for (std::size_t i = 0; i < back.tensors.size(); ++i)
      if (back.tensors[i].defined()) {
        roots.push_back(flight.outputs[i]);
        slopes.push_back(back.tensors[i]);
      }
  }
  // What upper stages made of a shared parameter comes first, as in a whole backward.
  at.tied.clear();
  Replica& model = models_[at.module_at_work];
  for (auto& [parameter, gradient] : back.tied) {
    if (plan_->uses(at.stage_index(), parameter)) {
      roots.push_back(model.tensors.trainable[parameter].tensor);
      slopes.push_back(gradient);
    } else {
      at.tied[parameter] = gradient;
    }
  }
  tower.accumulated.assign(map_.seats.size(), 0);
  if (!roots.empty())
    with_random(tower, back.random, [&] {
      const device::DeviceScope scope(device::torch_device(tower.device));
      torch::autograd::backward(roots, slopes);
    });
  if (at.to_before) {
    Handed down;
    for (const auto& slope : flight.slopes) down.tensors.push_back(std::move(*slope));
    down.tied = std::exchange(at.tied, {});
    down.random = std::move(back.random);
    at.to_before->put(tower.shard, std::move(down));
  }
  if (method_.clip.per_shard_norm == 0)
    tower.gradients.finish(tower.shard);  // the stage before need not wait for that
  flight = {};
  roots.clear();
  models_.check(at.module_at_work);
}

void StageRunner::gradient_ready(StageTower& at, Place place, std::size_t parameter) const {
  Tower& tower = at.tower;
  if (tower.shard < 0) return;  // a backward of the caller's own
  const std::string& name = map_.seats[parameter]->name;
  torch::Tensor& tensor = models_[place].tensors.trainable[parameter].tensor;
  note_ready(tower, parameter, name, "the function of a stage");
  if (!plan_->uses(at.stage_index(), parameter))
    throw ConfigError(
        "parameter '" + name + "' is used by stage " + std::to_string(at.stage + 1) +
        ", which did not use it in the first step: that step decides which stages have which "
        "parameters. Take the first step with a loss that uses all of them, each in its stage.");
  if (plan_->owner(parameter) == at.stage_index()) {
    torch::Tensor gradient = take_gradient(tensor, *map_.seats[parameter]);
    if (method_.clip.per_shard_norm > 0)
      at.taken[tower.shard][parameter] = std::move(gradient);
    else
      tower.gradients.add_first(tower.shard, parameter, std::move(gradient));
  } else {
    at.tied[parameter] = std::move(tensor.mutable_grad());
    tensor.mutable_grad() = torch::Tensor();
  }
}

void StageRunner::bring_norms(const StageTower& at, std::vector<ShardNorm>& norms) const {
  for (const auto& [shard, gradients] : at.taken)
    for (const auto& [parameter, gradient] : gradients)
      norms[static_cast<std::size_t>(shard)].squares[parameter] = squares_of(gradient);
  if (!is_last(at)) return;
  for (std::size_t i = 0; i < at.tower.weights.size(); ++i)
    norms[static_cast<std::size_t>(at.tower.shards.first) + i].weight = clip_weight(at.tower, i);
}

void StageRunner::clip_shards(StageTower& at, const std::vector<ShardNorm>& norms) const {
  const torch::NoGradGuard no_grad;
  const double limit = method_.clip.per_shard_norm;
  for (int shard = at.tower.shards.first; shard < at.tower.shards.end; ++shard) {
    const auto& [squares, weight] = norms[static_cast<std::size_t>(shard)];
    double sum = 0;
    for (const double each : squares) sum += each;
    const double norm = std::sqrt(sum) / (weight * at.tower.pass.loss_scale);
    for (auto& [parameter, gradient] : at.taken[shard]) {
      if (!(weight > 0)) continue;
      if (norm > limit) gradient.mul_(limit / norm);
      at.tower.gradients.add(shard, parameter, std::move(gradient));
    }
    at.tower.gradients.finish(shard);
  }
  at.taken.clear();
}

}  // namespace lockstep::strategy
