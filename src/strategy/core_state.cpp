#include "strategy/core.h"
#include "strategy/method_changes.h"

namespace lockstep::strategy {

State Core::state_of(const arena::Tensors& shown) const {
  return strategy::state_of({steps_, updates_, numbers_, loss_scale_}, shown, map_,
                            towers_.made_with(), options_.method);
}

Loaded Core::read(const State& state) const {
  return strategy::read(state, map_, replicas_, towers_.made_with());
}

void Core::take_scale(const State& state) { restore_scale(loss_scale_, state, options_.method); }

void Core::take_numbers(const State& state, std::vector<std::int64_t> numbers) {
  steps_ = state.steps;
  updates_ = state.updates;
  numbers_.restore(std::move(numbers));
}

void Core::take_flags(const State& state) {
  replicas_.require_gradients(trained(state, map_));
  notes_.add(change_notes(state, towers_.made_with(), options_.method));
}

}  // namespace lockstep::strategy
