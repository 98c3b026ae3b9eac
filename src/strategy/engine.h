#pragma once

// The engine of Mirrored: towers, their state, and one exact step.
//
// engine.cpp           the step
// engine_shards.cpp    forward and backward of a tower's shards
// engine_evaluate.cpp  evaluation
// engine_setup.cpp     construction
// engine_state.cpp     what is saved and loaded
// engine_devices.cpp   devices that fail, or are slow
// engine_report.cpp    what a step tells

#include <lockstep/mirrored.h>

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collective/collective.h"
#include "device/placement.h"
#include "device/tower_pool.h"
#include "optim/loss_scale.h"
#include "strategy/replica.h"
#include "strategy/staging.h"
#include "strategy/tower.h"

namespace lockstep::detail {

/// Whether a tower failed because of its device: lost, or out of memory.
bool is_device_failure(const std::exception_ptr& cause);

class Engine {
 public:
  using Factory = std::function<std::shared_ptr<torch::nn::Module>(int tower)>;
  using Task = std::function<void(int tower)>;
  /// Makes the collective of so many towers and shards.
  using MakeCollective =
      std::function<std::unique_ptr<collective::Collective>(int towers, int shards)>;

  /// `make_collective` is for tests; without it the devices decide.
  Engine(MirroredOptions options, const Factory& replica,
         const MakeCollective& make_collective = nullptr);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::shared_ptr<Staging> stage(const ShardWork& work);
  StepReport step(const ShardWork& work);
  StepReport compute(const ShardWork& work);
  void run_tasks(const std::function<Task()>& next);
  void with_averaged_weights(const std::function<void()>& evaluation);
  State state();
  void load(const State& state);

  const MirroredOptions& options() const { return options_; }
  Seconds now() const;
  const torch::nn::Module& module() const { return *(*replicas_)[replicas_->first()].module; }
  void set_learning_rate(double lr);
  std::int64_t steps() const { return steps_; }
  std::int64_t skipped() const { return steps_ - updates_; }
  int shown_tower();
  torch::Device device_of(int place) const;

 private:
  using Tower = strategy::Tower;
  using Ranges = std::vector<strategy::ShardRange>;
  /// One flat part of each slice of each tower.
  using PartOf = std::function<torch::Tensor(const Tower&, std::size_t bucket)>;

  /// What all towers have agreed on in a step; each computes the same, the first one's is kept.
  struct Outcome {
    double loss = 0, weight = 0, norm = 0;
    bool applied = false, clipped = false, overflow = false;
    std::vector<char> reached = {};  ///< by parameter: a shard has a gradient for it
  };

  // The step.
  StepReport attempt(const ShardWork& work, Seconds begin);
  void average_buffers();
  void settle_buffers(bool applied);
  Outcome train(Tower& tower, const ShardWork& work);
  bool acceptable(Tower& tower, Outcome& outcome);
  double average_keep() const;
  void run_towers(const std::function<void(Tower&)>& job);
  Tower* first_to_fail(const std::function<void(Tower&)>& job);
  void swap_averages();
  void require_whole() const;
  static void keep_first(std::atomic<Tower*>& failed, Tower& tower);
  [[noreturn]] void fail(Tower& tower, const std::string& stage);
  void enter(Tower& tower, strategy::Stage stage);

  // Shards.
  void load_shards(Tower& tower, const ShardWork& work, Staging& staging);
  void run_shards(Tower& tower, const ShardWork& work);
  void run_shard(Tower& tower, const ShardWork& work, const Staging::Shard& shard);
  void compute_gradients(Tower& tower, const ShardWork& work);
  Loss forward(Tower& tower, const ShardWork& work);
  void read_losses(Tower& tower);
  void gradient_ready(int place, std::size_t parameter);
  void add_gradient(Tower& tower, std::size_t parameter, torch::Tensor gradient);

  // Construction.
  std::vector<std::shared_ptr<torch::nn::Module>> make_replicas(
      const Factory& replica, std::shared_ptr<torch::nn::Module>& sample);
  void map_buckets();
  void add_hooks();
  void make_towers(const std::vector<int>& places);
  void make_slices(Tower& tower, int towers);
  void assign(const Ranges& ranges);
  std::unique_ptr<collective::Collective> make_collective() const;
  strategy::TreeSum tree_sum(int index, strategy::ShardRange range) const;
  Tower* tower_at(int place) { return tower_at_[static_cast<std::size_t>(place)]; }

  // State.
  std::vector<torch::Tensor> put_together(const PartOf& part) const;
  void take_apart(const std::vector<torch::Tensor>& flats, const PartOf& part);
  std::vector<NamedTensor> named(const PartOf& part, const std::string& suffix) const;
  State copy_of_state();

  // Devices.
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
  bool retire(const std::set<std::string>& gone);
  void take_over(const std::vector<std::vector<torch::Tensor>>& parts);
  void mirror_slots(Tower& tower);
  void balance();
  void move_shards(const Ranges& ranges);

  // Reports.
  StepReport report(const Outcome& outcome, Seconds begin);
  TowerReport report_of(const Tower& tower) const;
  std::vector<std::string> notes(const std::vector<char>& reached);
  void trace();

  // Constant after construction.
  MirroredOptions options_;  // but for the learning rate, which the caller sets between steps
  const MakeCollective make_test_collective_;
  std::unique_ptr<device::TowerPool> pool_;
  std::unique_ptr<strategy::Replicas> replicas_;
  std::vector<arena::Bucket> buckets_;
  std::vector<std::vector<std::size_t>> buckets_of_;  // by parameter
  std::vector<const arena::Seat*> seats_;             // by parameter
  std::vector<c10::Stream> input_streams_;            // by place; empty on the CPU
  device::TensorNames names_;                         // of parameters, for reports of placement

  // Between calls the caller's, inside one each tower its own.
  std::unique_ptr<collective::Collective> collective_;  // null: to be planned anew
  std::vector<Tower> towers_;
  std::vector<Tower*> tower_at_;  // by place; null where the device is gone

  // The caller's.
  std::int64_t steps_ = 0;    // taken, skipped ones included
  std::int64_t updates_ = 0;  // applied
  optim::LossScale loss_scale_;
  std::map<int, Seconds> shard_times_;  // by place: what a shard takes there
  bool averaged_ = false;               // inside with_averaged_weights
  bool audits_ = true;                  // until a step was applied, bytes of weights are compared
  bool balances_ = false;               // shards move to where they are computed faster
  bool torn_ = false;                   // the weights are lost, until a state is loaded
  std::set<std::string> noted_;         // parameters without gradient, fallbacks
  std::vector<std::string> pending_notes_;  // to be said with the next report
};

}  // namespace lockstep::detail
