#include "strategy/saved.h"

#include <lockstep/error.h>

#include <algorithm>

#include "optim/rules.h"
#include "optim/slots.h"
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

State state_of(const Counts& counts, const arena::Tensors& shown, const ParameterMap& map,
               const Method& made_with, const Method& method) {
  const torch::NoGradGuard no_grad;
  const bool float16 = method.precision == Precision::float16;
  State state{.steps = counts.steps,
              .updates = counts.updates,
              .loss_scale = float16 ? counts.loss_scale.value() : 0,
              .good_steps = counts.loss_scale.state().good_steps,
              .buffers = copies_of(shown.buffers),
              .frozen = copies_of(shown.frozen),
              .changed = changed_fields(made_with, method)};
  const auto numbers = counts.numbers.get();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] != counts.updates) state.updates_of[map.seats[i]->name] = numbers[i];
  for (const arena::Layout& layout : map.layouts)
    for (const arena::Seat& seat : layout.seats) {
      const torch::Tensor& tensor = shown.trainable[seat.entry].tensor;
      state.parameters.push_back({seat.name, copy_of(tensor)});
      if (!tensor.requires_grad()) state.held.push_back(seat.name);
    }
  return state;
}

Loaded read(const State& state, const ParameterMap& map, const Replicas& replicas,
            const Method& made_with) {
  const torch::NoGradGuard no_grad;
  const std::size_t slots = optim::most_slots(made_with);
  Loaded loaded{.parameters = ByName(state.parameters).flats(map.layouts),
                .buffers = ByName(state.buffers).flats(replicas.buffer_layouts()),
                .numbers = numbers_of(state, map)};
  std::size_t own_slots = 0;
  for (std::size_t i = 0; i < slots; ++i)
    for (const arena::Seat* seat : map.seats)
      own_slots += !slot_naming(made_with, i)(*seat).empty();
  if (state.slots.size() != own_slots)
    throw ConfigError("the state has " + std::to_string(state.slots.size()) +
                      " slots, the optimizer has " + std::to_string(own_slots) +
                      ": it is of another optimizer.");
  if (made_with.moving_average && state.averages.empty())
    throw ConfigError("the state has no moving averages: it was trained without them.");
  for (std::size_t i = 0; i < slots; ++i)
    loaded.kept.push_back(ByName(state.slots).flats(map.layouts, slot_naming(made_with, i)));
  if (made_with.moving_average) loaded.kept.push_back(ByName(state.averages).flats(map.layouts));
  for (const arena::Entry& entry : replicas[replicas.first()].tensors.frozen)
    loaded.frozen.push_back(
        ByName(state.frozen).at(entry.name, entry.tensor.sizes(), entry.tensor.scalar_type()));
  return loaded;
}

void restore_scale(optim::LossScale& scale, const State& state, const Method& method) {
  if (method.precision != Precision::float16) return;
  if (state.loss_scale > 0)
    scale.restore({state.loss_scale, state.good_steps});
  else  // trained in another precision
    scale = optim::LossScale(method.loss_scaling);
}

std::vector<char> trained(const State& state, const ParameterMap& map) {
  std::vector<char> flags;
  for (const arena::Seat* seat : map.seats)
    flags.push_back(std::ranges::find(state.held, seat->name) == state.held.end());
  return flags;
}

}  // namespace lockstep::strategy
