#pragma once

// How a method may change between steps, and how a state tells of it.

#include <lockstep/method.h>
#include <lockstep/state.h>

#include <map>
#include <string>
#include <vector>

namespace lockstep::strategy {

/// In place, of optimizer `number` as Terms::optimizer counts. Throws ConfigError for a rate that
/// cannot be.
void change_learning_rate(Method& method, std::size_t number, double lr);

/// In place. Throws ConfigError when `optimizer` cannot be, or cannot go on with the slots of what
/// the towers were made with.
void change_optimizer(Method& method, const Method& made_with, std::size_t number,
                      const Optimizer& optimizer);

/// Fields of the method, but for rates, that are not what the towers were made with.
std::map<std::string, std::string> changed_fields(const Method& made_with, const Method& method);

/// What to say where optimizers are others than when the state was taken.
std::vector<std::string> change_notes(const State& state, const Method& made_with,
                                      const Method& method);

}  // namespace lockstep::strategy
