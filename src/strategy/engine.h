#pragma once

// The engine of Mirrored: one exact step on all towers.
//
// engine.cpp           the step
// engine_evaluate.cpp  evaluation
// engine_optim.cpp     optimizers that change between steps
// engine_state.cpp     what is saved and loaded
// engine_report.cpp    what a step tells
//
// Its parts: setup.h (checks and replicas), towers.h (threads, slices, collective), shard_runner.h
// (forward and backward), flat.h (cutting and joining state), rescue.h (devices that fail),
// balance.h (devices that are slow).

#include <lockstep/mirrored.h>

#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "optim/loss_scale.h"
#include "optim/update_numbers.h"
#include "strategy/rescue.h"
#include "strategy/setup.h"
#include "strategy/shard_runner.h"
#include "strategy/torn.h"
#include "strategy/towers.h"

namespace lockstep::strategy {

using detail::ShardWork;

class Engine {
 public:
  using Task = std::function<void(Place place)>;

  /// `make_collective` is for tests; without it the devices decide.
  Engine(MirroredOptions options, const Factory& replica, detail::Making making,
         const Towers::MakeCollective& make_collective = nullptr);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void stage(detail::Shards& shards) { runner_.stage(shards); }
  StepResult step(const ShardWork& work);
  StepResult gradients(const ShardWork& work);
  StepResult compute(const ShardWork& work);
  void run_tasks(const std::function<Task()>& next);
  void with_averaged_weights(const std::function<void()>& evaluation);
  State state();
  void load(const State& state);

  const MirroredOptions& options() const { return options_; }
  Seconds now() const;
  const torch::nn::Module& module() const { return *replicas_[replicas_.first()].module; }
  /// Of optimizer `number`, as Terms::optimizer counts.
  void set_learning_rate(std::size_t number, double lr);
  void set_optimizer(std::size_t number, const Optimizer& optimizer);
  void reset_slots(const std::string& pattern);
  void set_trainable(const std::string& pattern, bool trainable);
  std::int64_t steps() const { return steps_; }
  std::int64_t skipped() const { return steps_ - updates_; }
  Place shown();
  torch::Device device_of(Place place) const;
  torch::Device device() const { return device_of(replicas_.first()); }

 private:
  /// What all towers have agreed on in a step; each computes the same, the first one's is kept.
  struct Outcome {
    double loss = 0, weight = 0, norm = 0;
    bool applied = false, clipped = false, overflow = false;
    std::vector<char> reached = {};   ///< by parameter: a shard has a gradient for it
    std::vector<char> selected = {};  ///< by parameter: the step was about it
  };

  // The step.
  StepResult attempt(const ShardWork& work, Pass pass, Seconds begin);
  Outcome train(Tower& tower, const ShardWork& work);
  bool acceptable(Tower& tower, Outcome& outcome);
  void update(Tower& tower, const Outcome& outcome);
  void hand_out(Tower& tower, const Outcome& outcome);
  void show_gradients(const Outcome& outcome);
  double clip_factor(const Outcome& outcome) const;
  double average_keep() const;
  void require_same_modes();
  void average_buffers();
  void settle_buffers(bool applied);
  void run_towers(const ShardWork& work, Pass pass, const Towers::Job& job);
  std::vector<char> selection(const std::string& update);
  void recover();
  void balance();

  // Evaluation and state.
  void swap_averages();
  State copy_of_state();
  std::map<std::string, std::string> changed_fields() const;
  void note_changes(const State& state);
  std::vector<NamedTensor> collected(const std::function<Flats(const Tower&)>& parts,
                                     const Naming& name = own_name);

  // Failures.
  /// Throws a TowerError if there is a failure.
  void require_success(const std::optional<Failure>& failure, const char* stage) const;
  /// Calls `work`, and again without a device that failed meanwhile, where the options say so; else
  /// throws a TowerError that names the device.
  template <class Work>
  auto surviving(const char* stage, const Work& work) {
    for (;;) try {
        return work();
      } catch (const TowerError& error) {
        if (!go_on_without(error)) throw;
      } catch (const DeviceLost& lost) {
        const TowerError error(lost.device, steps_, -1, stage, std::current_exception());
        if (!go_on_without(error)) throw error;
      }
  }
  bool go_on_without(const TowerError& error);

  // Reports.
  StepResult report(std::int64_t step, const ShardWork& work, const Outcome& outcome,
                    Seconds begin);
  TowerReport report_of(const Tower& tower) const;
  std::vector<std::string> notes(const Outcome& outcome);
  void trace();

  MirroredOptions options_;  // constant, but for the values of optimizers

  // The parts. Between calls the caller's; inside one, each tower's thread has its own of each.
  device::TowerPool pool_;
  Replicas replicas_;
  const ParameterMap map_;
  Towers towers_;
  ShardRunner runner_;
  std::optional<Rescue> rescue_;  // none: stop when a device fails

  // The caller's.
  std::int64_t steps_ = 0;    // taken, skipped ones included
  std::int64_t updates_ = 0;  // applied
  optim::UpdateNumbers numbers_;
  optim::LossScale loss_scale_;
  std::map<Place, Seconds> shard_times_;  // what one takes there, 0 before the first
  bool balances_;                         // shards move to where they are computed faster
  bool averaged_ = false;                 // inside with_averaged_weights
  bool audits_ = true;                    // until a step was applied
  Torn torn_;
  std::map<std::string, std::vector<char>> matches_;  // by pattern: the parameters that it means
  Flats handed_out_;  // whole gradients on the CPU: what the model's parameters have as grad()
  std::set<std::string> noted_;             // parameters without gradient, fallbacks
  std::vector<std::string> pending_notes_;  // to be said with the next report
};

}  // namespace lockstep::strategy
