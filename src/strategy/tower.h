#pragma once

// What one tower holds during a step.

#include <lockstep/detail/place.h>
#include <lockstep/loss.h>
#include <lockstep/metrics.h>
#include <lockstep/report.h>
#include <torch/torch.h>

#include <optional>
#include <vector>

#include "collective/collective.h"
#include "optim/slice_update.h"
#include "strategy/balance.h"
#include "strategy/flat.h"
#include "strategy/gradients.h"
#include "strategy/results.h"
#include "strategy/scripts.h"
#include "strategy/stage_clock.h"

namespace lockstep::strategy {

using detail::Place;

/// The number of a tower among those at work; the collective's. It changes when a device is lost.
struct Rank {
  int value = 0;
  operator int() const { return value; }
};

/// What all towers are told about a step.
struct Pass {
  std::int64_t step = 0;
  double loss_scale = 1;
  bool audits = false;              ///< bytes of weights are compared around each shard
  bool exchanges = true;            ///< gradients are posted as they get ready
  bool updates = true;              ///< else the gradients are handed out
  std::vector<char> selected = {};  ///< by parameter: the step is about it
};

/// Touched by its tower's thread during a step, by the caller between steps; while its thread is in
/// backward, by autograd's thread of the device.
struct Tower {
  Tower(Rank number, Place at, const Device& on, ShardRange range, TreeSum sum)
      : rank(number), place(at), device(on), shards(range), gradients(std::move(sum)), clock(on) {}

  // Constant after construction.
  Rank rank;
  Place place;
  Device device;
  ShardRange shards;
  torch::Generator generator;
  std::vector<collective::GradientSlice> slices;  ///< one a bucket
  std::vector<optim::SliceUpdate> updates;        ///< of those slices

  // Of the step at work.
  collective::Collective* collective = nullptr;
  Pass pass;
  TreeSum gradients;
  StageClock clock;
  int shard = -1;                        ///< at work on it; -1 outside
  int last_shard = -1;                   ///< that has rows: its gradients complete the tower's
  std::vector<std::size_t> pending;      ///< by bucket: parameters whose gradient is to come
  std::vector<char> accumulated;         ///< by parameter: its gradient of this shard has come
  std::vector<torch::Tensor> taken;      ///< by parameter: gradients to be clipped, this shard's
  std::vector<torch::Tensor> loss_sums;  ///< not yet read from the device
  std::vector<double> losses, weights;   ///< by shard; an infinite weight is that of a total
  std::vector<double> counting;          ///< by shard: 1 for Loss::at_least_one
  std::vector<Loss> brought;             ///< by shard: metrics and outputs, still on the device
  std::vector<ShardResults> results;     ///< of those
  std::vector<std::vector<torch::Tensor>> buffers;  ///< by shard that was not empty
  Scripts scripts;                                  ///< that its model has run
  int computed = 0;                                 ///< shards, empty ones left out
  std::optional<std::int64_t> rows = 0;             ///< of those; nothing: unknown
  std::vector<double> culprits;
  bool in_head = false;  ///< runs the head of a loss over the whole batch

  // What the collective reads, until its next call has returned.
  collective::SumTerms loss_terms, weight_terms, counting_terms, culprit_terms;
  std::vector<collective::SumTerms> square_terms;

  void begin_step(collective::Collective& with, const Pass& what);
  void enter(Stage stage) { clock.enter(stage, collective->waited(rank)); }
  void end_step() { clock.stop(collective->waited(rank)); }

  Mean loss() const;  ///< over its shards

  /// What it keeps from step to step: by slot, and last the moving average if there is one.
  std::vector<Flats> kept() const;
};

}  // namespace lockstep::strategy
