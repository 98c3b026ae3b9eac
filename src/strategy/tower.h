#pragma once

// What one tower holds during a step.

#include <lockstep/metrics.h>
#include <lockstep/report.h>
#include <torch/torch.h>

#include <exception>
#include <optional>
#include <vector>

#include "collective/collective.h"
#include "optim/slice_update.h"
#include "strategy/gradients.h"
#include "strategy/stage_clock.h"

namespace lockstep::strategy {

/// The shards that a tower computes.
struct ShardRange {
  int first = 0, end = 0;
  friend bool operator==(const ShardRange&, const ShardRange&) = default;
};

/// Touched by its tower's thread during a step, by the caller between steps; while its thread is in
/// backward, by autograd's thread of the device.
struct Tower {
  Tower(int number, int at, const Device& on, ShardRange range, TreeSum sum)
      : index(number), place(at), device(on), shards(range), gradients(std::move(sum)), clock(on) {}

  // Constant after construction.
  int index;  ///< among the towers at work
  int place;  ///< of its thread in the pool, its replica and its model
  Device device;
  ShardRange shards;
  torch::Generator generator;
  std::vector<collective::GradientSlice> slices;   ///< one a bucket
  std::vector<optim::SliceUpdate> updates;         ///< of those slices
  std::vector<std::vector<torch::Tensor>> mirror;  ///< by update, its slots and average on the host

  // Of the step at work.
  TreeSum gradients;
  StageClock clock;
  int shard = -1;                        ///< at work on it; -1 outside
  int last_shard = -1;                   ///< that has rows: its gradients complete the tower's
  bool exchanges = true;                 ///< gradients are posted as they get ready
  std::vector<std::size_t> pending;      ///< by bucket: parameters whose gradient is to come
  std::vector<char> accumulated;         ///< by parameter: its gradient of this shard has come
  std::vector<torch::Tensor> taken;      ///< by parameter: gradients to be clipped, this shard's
  std::vector<torch::Tensor> loss_sums;  ///< not yet read from the device
  std::vector<double> losses, weights;   ///< by shard
  std::vector<std::vector<torch::Tensor>> buffers;  ///< by shard that was not empty
  int computed = 0;                                 ///< shards, empty ones left out
  std::optional<std::int64_t> rows = 0;             ///< of those; nothing: unknown
  std::vector<double> culprits;
  std::exception_ptr error;  ///< of the tower that failed first

  // What the collective reads, until its next call has returned.
  collective::SumTerms loss_terms, weight_terms, culprit_terms;
  std::vector<collective::SumTerms> square_terms;

  void begin_step(Seconds waited);
  Mean loss() const;  ///< over its shards
};

}  // namespace lockstep::strategy
