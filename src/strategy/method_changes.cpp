#include "strategy/method_changes.h"

#include <lockstep/error.h>

#include <cmath>

#include "optim/rules.h"

namespace lockstep::strategy {

void change_learning_rate(Method& method, std::size_t number, double lr) {
  if (!(std::isfinite(lr) && lr >= 0))
    throw ConfigError("the learning rate is " + std::to_string(lr) + "; it must be 0 or more.");
  lockstep::set_learning_rate(optim::optimizer_of(method, number), lr);
}

void change_optimizer(Method& method, const Method& made_with, std::size_t number,
                      const Optimizer& optimizer) {
  const std::string where =
      number == 0 ? "optimizer" : "group '" + made_with.groups[number - 1].pattern + "': optimizer";
  optim::validate(where, optimizer);
  optim::require_same_slots(where, optim::optimizer_of(made_with, number), optimizer);
  optim::optimizer_of(method, number) = optimizer;
}

std::map<std::string, std::string> changed_fields(const Method& made_with, const Method& method) {
  std::map<std::string, std::string> fields;
  for (const FieldChange& change : changes(fields_of(made_with), fields_of(method)))
    if (!change.name.ends_with(".lr")) fields[change.name] = change.now;
  return fields;
}

std::vector<std::string> change_notes(const State& state, const Method& made_with,
                                      const Method& method) {
  auto then = fields_of(made_with), now = then;
  for (const auto& [name, value] : state.changed) then[name] = value;
  for (const auto& [name, value] : changed_fields(made_with, method)) now[name] = value;
  std::vector<std::string> notes;
  for (const FieldChange& change : changes(then, now))
    notes.push_back(change.name + " was " + change.before + " when the state was taken, and is " +
                    change.now + " now: a state does not set it, call set_optimizer.");
  return notes;
}

}  // namespace lockstep::strategy
