#include <algorithm>

#include "optim/slots.h"
#include "strategy/core.h"
#include "strategy/method_changes.h"

namespace lockstep::strategy {
namespace {

torch::Tensor copy_of(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
}

std::vector<NamedTensor> copies_of(const std::vector<arena::Entry>& entries) {
  std::vector<NamedTensor> copies;
  for (const arena::Entry& entry : entries) copies.push_back({entry.name, copy_of(entry.tensor)});
  return copies;
}

/// By parameter, as State::updates_of has them; empty: each has had all updates.
std::vector<std::int64_t> numbers_of(const State& state, const ParameterMap& map) {
  if (state.updates_of.empty()) return {};
  std::vector<std::int64_t> numbers(map.seats.size(), state.updates);
  auto left = state.updates_of;
  for (const arena::Seat* seat : map.seats)
    if (const auto own = left.extract(seat->name); !own.empty())
      numbers[seat->entry] = own.mapped();
  if (!left.empty())
    throw ConfigError("the state counts the updates of '" + left.begin()->first +
                      "', and there is no such parameter: it is of another model.");
  return numbers;
}

}  // namespace

Naming slot_naming(const Method& method, std::size_t i) {
  return [&method, i](const arena::Seat& seat) {
    const std::size_t number = optim::terms_for(seat.name, method).optimizer;
    const auto slots = optim::slots_of(optim::optimizer_of(method, number));
    return i < slots.size() ? seat.name + "/" + slots[i].name : "";
  };
}

State Core::state_of(const arena::Tensors& shown) const {
  const torch::NoGradGuard no_grad;
  const bool float16 = options_.method.precision == Precision::float16;
  State state{.steps = steps_,
              .updates = updates_,
              .loss_scale = float16 ? loss_scale_.value() : 0,
              .good_steps = loss_scale_.state().good_steps,
              .buffers = copies_of(shown.buffers),
              .frozen = copies_of(shown.frozen),
              .changed = changed_fields(towers_.made_with(), options_.method)};
  for (std::size_t i = 0; i < numbers_.get().size(); ++i)
    if (numbers_.get()[i] != updates_) state.updates_of[map_.seats[i]->name] = numbers_.get()[i];
  for (const arena::Layout& layout : map_.layouts)
    for (const arena::Seat& seat : layout.seats) {
      const torch::Tensor& tensor = shown.trainable[seat.entry].tensor;
      state.parameters.push_back({seat.name, copy_of(tensor)});
      if (!tensor.requires_grad()) state.held.push_back(seat.name);
    }
  return state;
}

Core::Loaded Core::read(const State& state) const {
  const torch::NoGradGuard no_grad;
  const Method& made = towers_.made_with();
  Loaded loaded{.parameters = ByName(state.parameters).flats(map_.layouts),
                .buffers = ByName(state.buffers).flats(replicas_.buffer_layouts()),
                .numbers = numbers_of(state, map_)};
  std::size_t own_slots = 0;
  for (std::size_t i = 0; i < slots(); ++i)
    for (const arena::Seat* seat : map_.seats) own_slots += !slot_naming(made, i)(*seat).empty();
  if (state.slots.size() != own_slots)
    throw ConfigError("the state has " + std::to_string(state.slots.size()) +
                      " slots, the optimizer has " + std::to_string(own_slots) +
                      ": it is of another optimizer.");
  if (options_.method.moving_average && state.averages.empty())
    throw ConfigError("the state has no moving averages: it was trained without them.");
  for (std::size_t i = 0; i < slots(); ++i)
    loaded.kept.push_back(ByName(state.slots).flats(map_.layouts, slot_naming(made, i)));
  if (options_.method.moving_average)
    loaded.kept.push_back(ByName(state.averages).flats(map_.layouts));
  for (const arena::Entry& entry : replicas_[replicas_.first()].tensors.frozen)
    loaded.frozen.push_back(
        ByName(state.frozen).at(entry.name, entry.tensor.sizes(), entry.tensor.scalar_type()));
  return loaded;
}

void Core::take_scale(const State& state) {
  if (options_.method.precision != Precision::float16) return;
  if (state.loss_scale > 0)
    loss_scale_.restore({state.loss_scale, state.good_steps});
  else  // trained in another precision
    loss_scale_ = optim::LossScale(options_.method.loss_scaling);
}

void Core::take_numbers(const State& state, std::vector<std::int64_t> numbers) {
  steps_ = state.steps;
  updates_ = state.updates;
  numbers_.restore(std::move(numbers));
}

void Core::take_flags(const State& state) {
  std::vector<char> trained;
  for (const arena::Seat* seat : map_.seats)
    trained.push_back(std::ranges::find(state.held, seat->name) == state.held.end());
  replicas_.require_gradients(trained);
  std::ranges::move(change_notes(state, towers_.made_with(), options_.method),
                    std::back_inserter(pending_notes_));
}

}  // namespace lockstep::strategy
