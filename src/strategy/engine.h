#pragma once

// The engine of Mirrored: one exact step on all towers.
//
// engine.cpp        the step
// engine_optim.cpp  slots and moving averages between steps
// engine_state.cpp  what is saved and loaded
// engine_machines.cpp  what several machines tell each other beside the step
//
// Its parts: core.h (what every engine has), setup.h (checks and replicas), towers.h (threads,
// slices, collective), shard_runner.h (forward and backward), flat.h (cutting and joining state),
// rescue.h (devices that fail), neighbours.h (machines that fail), balance.h (devices that are
// slow).

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strategy/core.h"
#include "strategy/neighbours.h"
#include "strategy/rescue.h"

namespace lockstep::strategy {

class Engine : public Core {
 public:
  /// `make_collective` is for tests; without it the devices decide.
  Engine(const MirroredOptions& options, const Factory& replica, detail::Making making,
         const Towers::MakeCollective& make_collective = nullptr);

  void stage(detail::Shards& shards) { runner_.stage(shards); }
  StepResult step(const ShardWork& work);
  StepResult gradients(const ShardWork& work);
  StepResult compute(const ShardWork& work);
  void with_averaged_weights(const std::function<void()>& evaluation);
  State state();
  void load(const State& state);
  std::optional<State> rescue(const std::exception_ptr& failure);
  void set_trainable(const std::string& pattern, bool trainable);
  const torch::nn::Module& module() const { return *replicas_[replicas_.first()].module; }
  const Roster& roster() const { return towers_.roster(); }
  ShardRange share() const;  ///< the shards of this machine
  std::vector<std::string> all_results(const std::vector<std::string>& own);
  void reset_slots(const std::string& pattern);
  Place shown();

 private:
  // The step.
  StepResult attempt(const ShardWork& work, Pass pass, Seconds begin);
  Outcome train(Tower& tower, const ShardWork& work);
  void update(Tower& tower, const Outcome& outcome);
  void hand_out(Tower& tower, const Outcome& outcome);
  void show_gradients(const Outcome& outcome);
  void average_buffers();
  void settle_buffers(bool applied);
  void run_towers(const ShardWork& work, Pass pass, const Towers::Job& job);
  void recover();
  void balance(const StepReport& report);
  void prepare_tasks() override;
  bool go_on_without(const TowerError& error) override;
  StepResult report(std::int64_t step, const ShardWork& work, const Outcome& outcome,
                    Seconds begin);

  // Several machines.
  void compare_machines();
  void note_traffic();
  void agree(const char* call);
  void join_group();
  std::vector<Flats> buffers_of_all();
  void gather_results(StepResult& result);
  std::string weights() const;
  void copy_to_neighbour();
  bool outlives(const std::exception_ptr& failure);

  // State.
  void swap_averages();
  State copy_of_state();
  std::vector<NamedTensor> collected(const std::function<Flats(const Tower&)>& parts,
                                     const Naming& name = own_name);

  std::optional<Rescue> rescue_;                // none: stop when a device fails
  std::optional<Neighbours> neighbours_;        // none: nothing is kept of other machines
  bool copied_ = false;                         // and they have what is here
  std::map<std::string, Seconds> shard_times_;  // what one takes there, by name; 0 before the first
  bool balances_;                               // shards move to where they are computed faster
  bool written_ = true;  // the caller may have written to the model since machines agreed on it
  Flats handed_out_;     // whole gradients on the CPU: what the model's parameters have as grad()
};

}  // namespace lockstep::strategy
