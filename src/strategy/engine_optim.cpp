#include "strategy/engine.h"

namespace lockstep::strategy {

void Engine::reset_slots(const std::string& pattern) {
  check(!averaged_, "no reset_slots inside with_averaged_weights");
  torn_.require_whole();
  const std::vector<char> chosen = matching("reset_slots: pattern", pattern, map_);
  agree("reset_slots");
  copied_ = false;
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

void Engine::set_trainable(const std::string& pattern, bool trainable) {
  Core::set_trainable(pattern, trainable);
  copied_ = false;
}

void Engine::with_averaged_weights(const std::function<void()>& evaluation) {
  if (!options_.method.moving_average)
    throw ConfigError("there are no averaged weights; set moving_average in MirroredOptions.");
  check(!averaged_, "with_averaged_weights does not nest");
  torn_.require_whole();
  surviving("evaluate", [this] {
    replicas_.adopt();
    agree("with_averaged_weights");
    swap_averages();
  });
  const auto swap_back = [this] {
    try {
      swap_averages();
    } catch (...) {
      torn_.mark();
      averaged_ = false;
      throw;
    }
  };
  try {
    evaluation();
  } catch (...) {
    swap_back();
    throw;
  }
  swap_back();
}

/// Exchanges weights and averages, on all towers or on none.
void Engine::swap_averages() {
  if (updates_ > 0) {  // before, the average is the weights
    const auto run = [this](const Towers::Job& job) {
      require_success(towers_.run_together(job), "evaluate");
    };
    run([](Tower& tower) {
      for (optim::SliceUpdate& slice : tower.updates) slice.prepare_swap();
    });
    torn_.until_done([&] {
      run([this](Tower& tower) {
        for (optim::SliceUpdate& slice : tower.updates) slice.swap_average();
        towers_.collective().gather(tower.rank);
      });
    });
  }
  averaged_ = !averaged_;
}

}  // namespace lockstep::strategy
