#include <map>

#include "strategy/engine.h"

namespace lockstep::detail {

namespace {

/// Tensors of a state, found by name.
class ByName {
 public:
  explicit ByName(const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& tensor : tensors) by_name_[tensor.name] = &tensor.value;
  }

  /// Throws ConfigError when it is not there, or of another size or type.
  const torch::Tensor& at(const std::string& name, at::IntArrayRef sizes,
                          torch::ScalarType dtype) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end())
      throw ConfigError("the state has no '" + name + "': it is of another model or optimizer.");
    const torch::Tensor& value = *found->second;
    if (value.sizes() != sizes || value.scalar_type() != dtype)
      throw ConfigError("'" + name + "' of the state is " + value.toString() +
                        " of another size or type than the model's.");
    return value;
  }

 private:
  std::map<std::string, const torch::Tensor*> by_name_;
};

/// Calls f(flat, seat, value) for every seat of `layouts`, with the tensor that `tensors` have
/// under the seat's name and `suffix`. Throws ConfigError when it is not there, or of another size.
template <class F>
void for_each_named(const std::vector<NamedTensor>& tensors, const std::string& suffix,
                    const std::vector<arena::Layout>& layouts, const F& f) {
  const ByName by_name(tensors);
  for (std::size_t i = 0; i < layouts.size(); ++i)
    for (const arena::Seat& seat : layouts[i].seats)
      f(i, seat, by_name.at(seat.name + suffix, seat.sizes, layouts[i].dtype));
}

/// Flat tensors on the CPU with the values of `tensors` in their seats.
std::vector<torch::Tensor> flat(const std::vector<NamedTensor>& tensors, const std::string& suffix,
                                const std::vector<arena::Layout>& layouts) {
  std::vector<torch::Tensor> flats;
  for (const arena::Layout& layout : layouts) flats.push_back(arena::allocate(layout, torch::kCPU));
  for_each_named(tensors, suffix, layouts,
                 [&](std::size_t i, const arena::Seat& seat, const torch::Tensor& value) {
                   arena::view(flats[i], seat).copy_(value);
                 });
  return flats;
}

}  // namespace

/// Whole arenas on the CPU, from one part of each slice.
std::vector<torch::Tensor> Engine::put_together(const PartOf& part) const {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> flats;
  for (const arena::Layout& layout : replicas_->layouts())
    flats.push_back(arena::allocate(layout, torch::kCPU));
  for (const Tower& tower : towers_)
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      const arena::Slice range = tower.slices[bucket].range;
      flats[buckets_[bucket].arena].narrow(0, range.begin, range.size()).copy_(part(tower, bucket));
    }
  return flats;
}

/// The reverse: copies whole arenas into one part of each slice.
void Engine::take_apart(const std::vector<torch::Tensor>& flats, const PartOf& part) {
  const torch::NoGradGuard no_grad;
  for (const Tower& tower : towers_)
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      const arena::Slice range = tower.slices[bucket].range;
      part(tower, bucket).copy_(flats[buckets_[bucket].arena].narrow(0, range.begin, range.size()));
    }
}

std::vector<NamedTensor> Engine::named(const PartOf& part, const std::string& suffix) const {
  std::vector<NamedTensor> result;
  const std::vector<torch::Tensor> flats = put_together(part);
  for (std::size_t i = 0; i < flats.size(); ++i)
    for (const arena::Seat& seat : replicas_->layouts()[i].seats)
      result.push_back({seat.name + suffix, arena::view(flats[i], seat).clone()});
  return result;
}

State Engine::state() {
  require_whole();
  return surviving("state", [this] { return copy_of_state(); });
}

State Engine::copy_of_state() {
  replicas_->adopt();
  const torch::NoGradGuard no_grad;
  const strategy::Replica& shown = (*replicas_)[replicas_->first()];
  State state{
      .steps = steps_,
      .updates = updates_,
      .loss_scale = options_.method.precision == Precision::float16 ? loss_scale_.value() : 0,
      .good_steps = loss_scale_.state().good_steps};
  const auto copy = [](const torch::Tensor& tensor) {
    return tensor.detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
  };
  for (const arena::Layout& layout : replicas_->layouts())
    for (const arena::Seat& seat : layout.seats)
      state.parameters.push_back({seat.name, copy(shown.tensors.trainable[seat.entry].tensor)});
  const std::vector<optim::Slot>& slots = towers_.front().updates.front().slots();
  for (std::size_t k = 0; k < slots.size(); ++k)
    for (NamedTensor& slot :
         named([k](const Tower&tower,
                   std::size_t bucket) { return tower.updates[bucket].slots()[k].value; },
               "/" + slots[k].name))
      state.slots.push_back(std::move(slot));
  if (options_.method.moving_average)
    state.averages = named(
        [](const Tower& tower, std::size_t bucket) { return tower.updates[bucket].average(); }, "");
  if (averaged_ && updates_ > 0) std::swap(state.parameters, state.averages);
  state.gradients = named(
      [](const Tower& tower, std::size_t bucket) { return tower.updates[bucket].gradient(); }, "");
  for (const arena::Entry& entry : shown.tensors.buffers)
    state.buffers.push_back({entry.name, copy(entry.tensor)});
  for (const arena::Entry& entry : shown.tensors.frozen)
    state.frozen.push_back({entry.name, copy(entry.tensor)});
  return state;
}

void Engine::load(const State& state) {
  check(!averaged_, "no load inside with_averaged_weights");
  const torch::NoGradGuard no_grad;
  const auto& layouts = replicas_->layouts();
  const auto parameters = flat(state.parameters, "", layouts);
  const auto buffers = flat(state.buffers, "", replicas_->buffer_layouts());
  std::size_t parameter_count = 0;
  for (const arena::Layout& layout : layouts) parameter_count += layout.seats.size();
  const std::size_t own_slots = towers_.front().updates.front().slots().size() * parameter_count;
  if (state.slots.size() != own_slots)
    throw ConfigError("the state has " + std::to_string(state.slots.size()) +
                      " slots, the optimizer has " + std::to_string(own_slots) +
                      ": it is of another optimizer.");
  if (options_.method.moving_average && state.averages.empty())
    throw ConfigError("the state has no moving averages: it was trained without them.");
  std::vector<std::vector<torch::Tensor>> slots;
  for (const optim::Slot& slot : towers_.front().updates.front().slots())
    slots.push_back(flat(state.slots, "/" + slot.name, layouts));
  std::vector<torch::Tensor> averages;
  if (options_.method.moving_average) averages = flat(state.averages, "", layouts);
  strategy::Replica& shown = (*replicas_)[replicas_->first()];
  const ByName frozen_values(state.frozen);
  std::vector<torch::Tensor> frozen;
  for (const arena::Entry& entry : shown.tensors.frozen)
    frozen.push_back(
        frozen_values.at(entry.name, entry.tensor.sizes(), entry.tensor.scalar_type()));
  if (options_.method.precision == Precision::float16 && state.loss_scale > 0)
    loss_scale_.restore({state.loss_scale, state.good_steps});
  else if (options_.method.precision == Precision::float16)  // trained in another precision
    loss_scale_ = optim::LossScale(options_.method.loss_scaling);
  if (torn_ && !collective_) make_towers(replicas_->places());  // those left could not take over
  replicas_->recover();
  replicas_->adopt();  // what the caller did before does not count any more

  for (std::size_t i = 0; i < layouts.size(); ++i)
    replicas_->parameters(replicas_->first())[i].copy_(parameters[i]);
  for (std::size_t i = 0; i < buffers.size(); ++i) shown.buffers[i].copy_(buffers[i]);
  for (std::size_t i = 0; i < frozen.size(); ++i) shown.tensors.frozen[i].tensor.copy_(frozen[i]);
  replicas_->touch();
  for (std::size_t k = 0; k < slots.size(); ++k)
    take_apart(slots[k], [k](const Tower& tower, std::size_t bucket) {
      return tower.updates[bucket].slots()[k].value;
    });
  if (options_.method.moving_average)
    take_apart(averages, [](const Tower& tower, std::size_t bucket) {
      return tower.updates[bucket].average();
    });
  if (options_.where.on_device_failure == OnDeviceFailure::replay)
    for (Tower& tower : towers_) mirror_slots(tower);
  steps_ = state.steps;
  updates_ = state.updates;
  torn_ = false;
  replicas_->adopt();
}

}  // namespace lockstep::detail
