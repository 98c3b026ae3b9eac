#include "optim/slots.h"
#include "strategy/engine.h"

#include <algorithm>

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

/// The name of slot `i` of each parameter: "fc.weight/exp_avg"; empty where it has no such slot.
Naming slot_naming(const Method& method, std::size_t i) {
  return [&method, i](const arena::Seat& seat) {
    const std::size_t number = optim::terms_for(seat.name, method).optimizer;
    const auto slots = optim::slots_of(optim::optimizer_of(method, number));
    return i < slots.size() ? seat.name + "/" + slots[i].name : "";
  };
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

State Engine::state() {
  torn_.require_whole();
  return surviving("state", [this] { return copy_of_state(); });
}

State Engine::copy_of_state() {
  replicas_.adopt();
  const torch::NoGradGuard no_grad;
  const arena::Tensors& shown = replicas_[replicas_.first()].tensors;
  const bool float16 = options_.method.precision == Precision::float16;
  State state{.steps = steps_,
              .updates = updates_,
              .loss_scale = float16 ? loss_scale_.value() : 0,
              .good_steps = loss_scale_.state().good_steps,
              .buffers = copies_of(shown.buffers),
              .frozen = copies_of(shown.frozen),
              .changed = changed_fields()};
  for (std::size_t i = 0; i < numbers_.get().size(); ++i)
    if (numbers_.get()[i] != updates_) state.updates_of[map_.seats[i]->name] = numbers_.get()[i];
  for (const arena::Layout& layout : map_.layouts)
    for (const arena::Seat& seat : layout.seats) {
      const torch::Tensor& tensor = shown.trainable[seat.entry].tensor;
      state.parameters.push_back({seat.name, copy_of(tensor)});
      if (!tensor.requires_grad()) state.held.push_back(seat.name);
    }
  for (std::size_t i = 0; i < towers_.front().updates.front().slots().size(); ++i)
    std::ranges::move(collected([i](const Tower& tower) { return tower.kept()[i]; },
                                slot_naming(towers_.made_with(), i)),
                      std::back_inserter(state.slots));
  if (options_.method.moving_average)
    state.averages = collected([](const Tower& tower) { return tower.kept().back(); });
  if (averaged_ && updates_ > 0) std::swap(state.parameters, state.averages);
  state.gradients = collected([](const Tower& tower) {
    Flats gradients;
    for (const collective::GradientSlice& slice : tower.slices) gradients.push_back(slice.gradient);
    return gradients;
  });
  return state;
}

/// Named tensors of all arenas. `parts` is one flat of each of a tower's slices.
std::vector<NamedTensor> Engine::collected(const std::function<Flats(const Tower&)>& parts,
                                           const Naming& name) {
  const Flats whole = allocate(map_.layouts, torch::kCPU);
  std::map<Place, std::vector<collective::ArenaPart>> brought;  // readable until all have left
  for (const Tower& tower : towers_)
    for (std::size_t i = 0; const torch::Tensor& values : parts(tower)) {
      brought[tower.place].push_back({map_.buckets[i].arena, tower.slices[i].range, values});
      ++i;
    }
  const auto failure = towers_.run_together([&](Tower& tower) {
    towers_.collective().collect(tower.rank, brought.at(tower.place), whole);
  });
  require_success(failure, "state");
  return named(whole, map_.layouts, name);
}

void Engine::load(const State& state) {
  check(!averaged_, "no load inside with_averaged_weights");
  const torch::NoGradGuard no_grad;
  // All that may be wrong with the state comes first.
  const Flats parameters = ByName(state.parameters).flats(map_.layouts);
  const Flats buffers = ByName(state.buffers).flats(replicas_.buffer_layouts());
  std::vector<std::int64_t> numbers = numbers_of(state, map_);
  const std::size_t slots = towers_.front().updates.front().slots().size();
  std::size_t own_slots = 0;
  for (std::size_t i = 0; i < slots; ++i)
    for (const arena::Seat* seat : map_.seats)
      own_slots += !slot_naming(towers_.made_with(), i)(*seat).empty();
  if (state.slots.size() != own_slots)
    throw ConfigError("the state has " + std::to_string(state.slots.size()) +
                      " slots, the optimizer has " + std::to_string(own_slots) +
                      ": it is of another optimizer.");
  if (options_.method.moving_average && state.averages.empty())
    throw ConfigError("the state has no moving averages: it was trained without them.");
  std::vector<Flats> kept;
  for (std::size_t i = 0; i < slots; ++i)
    kept.push_back(ByName(state.slots).flats(map_.layouts, slot_naming(towers_.made_with(), i)));
  if (options_.method.moving_average) kept.push_back(ByName(state.averages).flats(map_.layouts));
  Replica& shown = replicas_[replicas_.first()];
  Flats own_frozen, frozen;
  for (const arena::Entry& entry : shown.tensors.frozen) {
    own_frozen.push_back(entry.tensor);
    frozen.push_back(
        ByName(state.frozen).at(entry.name, entry.tensor.sizes(), entry.tensor.scalar_type()));
  }
  if (options_.method.precision == Precision::float16 && state.loss_scale > 0)
    loss_scale_.restore({state.loss_scale, state.good_steps});
  else if (options_.method.precision == Precision::float16)  // trained in another precision
    loss_scale_ = optim::LossScale(options_.method.loss_scaling);

  if (torn_ && !towers_.planned())
    towers_.make(replicas_.places());  // those left did not take over
  replicas_.recover();
  replicas_.adopt();  // what the caller did before does not count any more
  torn_.until_done([&] {
    copy_all(replicas_.parameters(replicas_.first()), parameters);
    copy_all(shown.buffers, buffers);
    copy_all(own_frozen, frozen);
    replicas_.touch();
    towers_.restore(kept);
    for (const Tower& tower : towers_)
      if (rescue_) rescue_->mirror(tower);
    steps_ = state.steps;
    updates_ = state.updates;
    numbers_.restore(std::move(numbers));
  });
  std::vector<char> trained;
  for (const arena::Seat* seat : map_.seats)
    trained.push_back(std::ranges::find(state.held, seat->name) == state.held.end());
  replicas_.require_gradients(trained);
  replicas_.adopt();
  note_changes(state);
}

/// Fields of the method, but for rates, that are not what the towers were made with.
std::map<std::string, std::string> Engine::changed_fields() const {
  std::map<std::string, std::string> fields;
  for (const FieldChange& change :
       changes(fields_of(towers_.made_with()), fields_of(options_.method)))
    if (!change.name.ends_with(".lr")) fields[change.name] = change.now;
  return fields;
}

/// Where optimizers are others than when the state was taken, the next report says so.
void Engine::note_changes(const State& state) {
  auto then = fields_of(towers_.made_with()), now = then;
  for (const auto& [name, value] : state.changed) then[name] = value;
  for (const auto& [name, value] : changed_fields()) now[name] = value;
  for (const FieldChange& change : changes(then, now))
    pending_notes_.push_back(change.name + " was " + change.before +
                             " when the state was taken, and is " + change.now +
                             " now: a state does not set it, call set_optimizer.");
}

}  // namespace lockstep::strategy
