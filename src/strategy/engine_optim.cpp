#include <cmath>

#include "strategy/engine.h"

namespace lockstep::strategy {

void Engine::set_learning_rate(std::size_t number, double lr) {
  if (!(std::isfinite(lr) && lr >= 0))
    throw ConfigError("the learning rate is " + std::to_string(lr) + "; it must be 0 or more.");
  lockstep::set_learning_rate(optim::optimizer_of(options_.method, number), lr);
}

void Engine::set_optimizer(std::size_t number, const Optimizer& optimizer) {
  const Method& made = towers_.made_with();
  const std::string where =
      number == 0 ? "optimizer" : "group '" + made.groups[number - 1].pattern + "': optimizer";
  optim::validate(where, optimizer);
  optim::require_same_slots(where, optim::optimizer_of(made, number), optimizer);
  optim::optimizer_of(options_.method, number) = optimizer;
}

void Engine::reset_slots(const std::string& pattern) {
  check(!averaged_, "no reset_slots inside with_averaged_weights");
  torn_.require_whole();
  std::vector<std::string> names;
  for (const arena::Seat* seat : map_.seats) names.push_back(seat->name);
  const std::vector<char> chosen = optim::matching("reset_slots: pattern", pattern, names);
  surviving(name_of(Stage::update), [&] {
    const auto failure = towers_.run_together([&](Tower& tower) {
      for (optim::SliceUpdate& slice : tower.updates) slice.reset(options_.method, chosen);
      if (rescue_) rescue_->mirror(tower);
    });
    if (failure && !rescue_) torn_.mark();  // else they begin again, with what was mirrored
    require_success(failure, name_of(Stage::update));
  });
  numbers_.reset(updates_, chosen);
}

}  // namespace lockstep::strategy
