#pragma once

// The engine of Mirrored: towers, their state, and one exact step.

#include <lockstep/mirrored.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collective/collective.h"
#include "device/tower_pool.h"
#include "strategy/replica.h"
#include "strategy/tower.h"

namespace lockstep::detail {

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

  StepReport step(const ShardWork& work);
  StepReport compute(const ShardWork& work);
  void run_tasks(const std::function<Task()>& next);
  void with_averaged_weights(const std::function<void()>& evaluation);
  State state() const;

  const MirroredOptions& options() const { return options_; }
  void set_learning_rate(double lr);
  std::int64_t steps() const { return steps_; }
  std::int64_t skipped() const { return steps_ - updates_; }

 private:
  /// What all towers have agreed on in a step; each computes the same, the first one's is kept.
  struct Outcome {
    double loss = 0, weight = 0, norm = 0;
    bool applied = false, clipped = false;
  };

  void make_towers();
  void run_towers(const std::function<void(strategy::Tower&)>& job);
  void run_shards(strategy::Tower& tower, const ShardWork& work);
  void run_shard(strategy::Tower& tower, const ShardWork& work);
  Outcome train(strategy::Tower& tower, const ShardWork& work);
  bool acceptable(strategy::Tower& tower, double norm);
  double average_keep() const;
  void require_whole() const;
  static void keep_first(std::atomic<strategy::Tower*>& failed, strategy::Tower& tower);
  [[noreturn]] void fail(strategy::Tower& tower, const std::string& stage) const;
  StepReport report(const Outcome& outcome);
  TowerReport report_of(const strategy::Tower& tower) const;
  std::vector<std::string> notes();
  void enter(strategy::Tower& tower, strategy::Stage stage);
  std::vector<NamedTensor> named(
      const std::function<torch::Tensor(const optim::SliceUpdate&)>& part,
      const std::string& suffix) const;

  // Constant after construction.
  MirroredOptions options_;  // but for the learning rate, which the caller sets between steps
  std::unique_ptr<device::TowerPool> pool_;
  std::unique_ptr<strategy::Replicas> replicas_;
  std::unique_ptr<collective::Collective> collective_;

  // Between calls the caller's, inside one each tower its own.
  std::vector<strategy::Tower> towers_;

  // The caller's.
  std::int64_t steps_ = 0;                  // taken, skipped ones included
  std::int64_t updates_ = 0;                // applied
  bool averaged_ = false;                   // inside with_averaged_weights
  bool torn_ = false;                       // a tower failed while applying: the weights are lost
  std::set<std::string> noted_;             // parameters
  std::vector<std::string> pending_notes_;  // to be said with the next report
};

}  // namespace lockstep::detail
