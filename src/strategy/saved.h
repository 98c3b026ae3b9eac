#pragma once

// What every engine saves and loads.

#include <lockstep/method.h>
#include <lockstep/state.h>

#include <cstdint>
#include <vector>

#include "optim/loss_scale.h"
#include "optim/update_numbers.h"
#include "strategy/flat.h"
#include "strategy/replica.h"

namespace lockstep::strategy {

/// The name of slot `i` of each parameter: "fc.weight/exp_avg"; empty where it has no such slot.
Naming slot_naming(const Method& method, std::size_t i);

/// What an engine has counted.
struct Counts {
  std::int64_t steps = 0, updates = 0;
  const optim::UpdateNumbers& numbers;
  const optim::LossScale& loss_scale;
};

/// Counts, and the tensors and flags of the model that is shown: all but slots, averages and
/// gradients.
State state_of(const Counts& counts, const arena::Tensors& shown, const ParameterMap& map,
               const Method& made_with, const Method& method);

/// What a state brings for a model.
struct Loaded {
  Flats parameters = {}, buffers = {}, frozen = {};
  std::vector<std::int64_t> numbers = {};
  std::vector<Flats> kept = {};  ///< by slot, and last the moving average if there is one
};

/// Throws ConfigError when the state is of another model or optimizer.
Loaded read(const State& state, const ParameterMap& map, const Replicas& replicas,
            const Method& made_with);

/// In place: the scale goes on from the state's; anew, if that was trained in another precision.
void restore_scale(optim::LossScale& scale, const State& state, const Method& method);

/// By parameter: whether it was trained when the state was taken.
std::vector<char> trained(const State& state, const ParameterMap& map);

}  // namespace lockstep::strategy
