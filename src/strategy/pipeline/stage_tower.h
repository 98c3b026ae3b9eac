#pragma once

// One device of a pipeline: a stage of a replica.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "strategy/pipeline/channel.h"
#include "strategy/pipeline/plan.h"
#include "strategy/replica.h"
#include "strategy/tower.h"

namespace lockstep::strategy {

/// The parameters of a stage in one memory: on the CPU all replicas share it, an accelerator has
/// its own.
struct StageMemory {
  Flats parameters;                             ///< that it owns, by layout of the stage
  std::map<std::size_t, torch::Tensor> copies;  ///< of parameters that other stages own
  std::map<std::size_t, torch::Tensor> frozen;  ///< on an accelerator
  Flats start;  ///< buffers as a shard finds them at the first stage
};

/// A shard between its forward and its backward.
struct Flight {
  bool empty = false;
  bool lost = false;                                   ///< its loss is not finite: no backward
  Handed in;                                           ///< what came from the stage before
  std::vector<torch::Tensor> outputs;                  ///< with their graphs
  std::any rest;                                       ///< what the outputs were in
  std::vector<std::shared_ptr<torch::Tensor>> slopes;  ///< by tensor of `in`: its gradient
  RandomState begin;                                   ///< of its random numbers, at this stage
};

/// Touched by its thread during a step, by the caller between steps; while its thread is in
/// backward, by autograd's thread of the device.
struct StageTower {
  StageTower(int of_stage, int of_replica, Rank rank, Place at, const Device& on, ShardRange range,
             TreeSum sum)
      : stage(of_stage), replica(of_replica), tower(rank, at, on, range, std::move(sum)) {}

  // Constant after construction.
  int stage, replica;
  Tower tower;                 ///< its rank is among the towers of the stage
  int number = 0;              ///< among all towers
  std::vector<Place> modules;  ///< one for each shard in flight
  StageMemory* memory = nullptr;
  Channel *from_before = nullptr, *to_next = nullptr;  ///< forth; null at the ends
  Channel *from_next = nullptr, *to_before = nullptr;  ///< back
  c10::Stream* input_stream = nullptr;                 ///< on an accelerator

  // Of the step at work.
  std::vector<Flight> flights;                ///< by module
  std::map<std::size_t, torch::Tensor> tied;  ///< of this backward: gradients for lower stages
  /// By shard and parameter: gradients to be clipped.
  std::map<int, std::map<std::size_t, torch::Tensor>> taken;
  Place module_at_work;
  std::vector<int> spans;           ///< by span of the clock: the shard; -1: none
  std::vector<Flats> last_buffers;  ///< by shard that was not empty, at the last stage

  std::size_t stage_index() const { return static_cast<std::size_t>(stage); }
  void enter(Stage what, int shard = -1) {
    tower.enter(what);
    spans.push_back(shard);
  }
};

}  // namespace lockstep::strategy
