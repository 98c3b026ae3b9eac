#pragma once

// What every engine has: replicas of the model on devices, optimizers that change between steps,
// evaluation, and what a step tells.
//
// core.cpp           making, optimizers and parameters between steps, one step's numbers
// core_evaluate.cpp  evaluation
// core_report.cpp    what a step tells
// core_state.cpp     what is saved and loaded, whatever the engine

#include <lockstep/mirrored.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "optim/loss_scale.h"
#include "optim/update_numbers.h"
#include "strategy/outcome.h"
#include "strategy/saved.h"
#include "strategy/selection.h"
#include "strategy/setup.h"
#include "strategy/shard_runner.h"
#include "strategy/step_report.h"
#include "strategy/surviving.h"
#include "strategy/torn.h"
#include "strategy/towers.h"

namespace lockstep::strategy {

using detail::ShardWork;

class Core {
 public:
  using Task = std::function<void(Place place)>;

  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  void run_tasks(const std::function<Task()>& next);

  const MirroredOptions& options() const { return options_; }
  Seconds now() const;
  /// Of optimizer `number`, as Terms::optimizer counts.
  void set_learning_rate(std::size_t number, double lr);
  void set_optimizer(std::size_t number, const Optimizer& optimizer);
  void set_trainable(const std::string& pattern, bool trainable);
  std::int64_t steps() const { return steps_; }
  std::int64_t skipped() const { return steps_ - updates_; }
  torch::Device device_of(Place place) const;
  torch::Device device() const { return device_of(replicas_.first()); }

 protected:
  /// See Towers and Replicas.
  Core(MirroredOptions options, const Factory& replica, detail::Making making, Ties ties,
       std::int64_t bucket_bytes, const Towers::MakeCollective& make_collective = nullptr);
  ~Core() = default;

  // The numbers of one step, see outcome.h.
  bool weigh(Tower& tower, Outcome& outcome) const;
  /// The averaged gradient in `slices`, and its norm. False when it is not to be applied; to refuse
  /// the step, the tower that has the bad shard throws.
  bool reduce(Tower& tower, std::span<collective::GradientSlice> slices, Outcome& outcome) const;
  optim::Moment moment(const Outcome& outcome) const;

  /// By parameter: whether it is trained in a step on those that match `update`.
  std::vector<char> selection(const std::string& update);
  void require_same_modes();

  /// Afterwards all towers have the newest weights, and what the caller did to the model.
  virtual void prepare_tasks() = 0;

  // Failures.
  /// Throws a TowerError if there is a failure.
  void require_success(const std::optional<Failure>& failure, const char* stage) const;
  /// Calls `work`, and again without a device that failed meanwhile, where the options say so; else
  /// throws a TowerError that names the device.
  template <class Work>
  auto surviving(const char* stage, const Work& work) {
    const auto go_on = [this](const TowerError& error) { return go_on_without(error); };
    return strategy::surviving(stage, steps_, go_on, work);
  }
  /// Takes the device out of the towers. False when the work cannot be done again.
  virtual bool go_on_without(const TowerError& error) = 0;

  // State.
  /// Steps, scale, parameters' flags: all but slots, averages and gradients.
  State state_of(const arena::Tensors& shown) const;
  /// What a state brings for this model. Throws ConfigError when it is of another.
  Loaded read(const State& state) const;
  void take_scale(const State& state);
  void take_numbers(const State& state, std::vector<std::int64_t> numbers);
  void take_flags(const State& state);  ///< what is held, and notes on what has changed
  std::size_t slots() const { return optim::most_slots(towers_.made_with()); }

  // Reports.
  /// What `towers` bring, who then have it no more; without notes and the step's time.
  StepResult result_of(std::int64_t step, const ShardWork& work, const Outcome& outcome,
                       std::span<Tower> towers);
  void trace(const Tower& tower) const;

  MirroredOptions options_;  // constant, but for the values of optimizers

  // The parts. Between calls the caller's; inside one, each tower's thread has its own of each.
  device::TowerPool pool_;
  Replicas replicas_;
  const ParameterMap map_;
  Towers towers_;
  ShardRunner runner_;

  // The caller's.
  std::int64_t steps_ = 0;    // taken, skipped ones included
  std::int64_t updates_ = 0;  // applied
  optim::UpdateNumbers numbers_;
  optim::LossScale loss_scale_;
  bool averaged_ = false;  // inside with_averaged_weights
  bool audits_ = true;     // until a step was applied
  Torn torn_;
  Notes notes_;

 private:
  Selection selection_;
};

}  // namespace lockstep::strategy
