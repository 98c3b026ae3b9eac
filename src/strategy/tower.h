#pragma once

// What one tower holds during a step, and the clock that says where its time went.

#include <lockstep/metrics.h>
#include <lockstep/report.h>
#include <torch/torch.h>

#include <array>
#include <chrono>
#include <exception>
#include <vector>

#include "collective/collective.h"
#include "optim/slice_update.h"
#include "strategy/gradients.h"

namespace lockstep::strategy {

enum class Stage { input, forward, backward, reduce, update, wait };

const char* name_of(Stage stage);

/// Adds up the time spent in each stage; what the collective spent waiting goes to `wait`.
class StageClock {
 public:
  void start(Seconds waited);
  void enter(Stage stage, Seconds waited);
  void stop(Seconds waited) { enter(stage_, waited); }

  Stage stage() const { return stage_; }
  Seconds in(Stage stage) const { return times_[static_cast<std::size_t>(stage)]; }

 private:
  Stage stage_ = Stage::input;
  std::chrono::steady_clock::time_point since_;
  Seconds waited_{};
  std::array<Seconds, 6> times_{};
};

/// Touched by its tower's thread during a step, by the caller between steps.
struct Tower {
  Tower(int number, int begin, int end, int shards_of_batch)
      : index(number), first_shard(begin), end_shard(end), gradients(begin, shards_of_batch) {}

  // Constant after construction.
  const int index;
  const int first_shard, end_shard;  ///< the shards it computes
  torch::Generator generator;
  std::vector<collective::GradientSlice> slices;  ///< one an arena
  std::vector<optim::SliceUpdate> updates;        ///< of those slices

  // Of the step at work.
  StageClock clock;
  int shard = -1;  ///< at work on it; -1 outside
  TreeSum gradients;
  std::vector<double> losses, weights;              ///< by shard
  std::vector<std::vector<torch::Tensor>> buffers;  ///< by shard that was not empty
  int shards = 0;                                   ///< computed, empty ones left out
  std::int64_t rows = 0;                            ///< of those
  std::vector<double> culprits;
  std::exception_ptr error;  ///< of the tower that failed first

  void begin_step(Seconds waited);
  Mean loss() const;  ///< over its shards
};

}  // namespace lockstep::strategy
