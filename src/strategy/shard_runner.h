#pragma once

// Forward and backward of a tower's shards: losses, and gradients summed up the tree.
//
// shard_runner.cpp        a loss of each shard
// shard_runner_whole.cpp  one of the rows of all shards

#include <c10/core/Stream.h>
#include <lockstep/detail/shards.h>
#include <lockstep/method.h>

#include <vector>

#include "device/placement.h"
#include "strategy/towers.h"

namespace lockstep::strategy {

class ShardRunner {
 public:
  /// Hooks itself to the parameters of all replicas, while it lives. All arguments must live on.
  ShardRunner(const Method& method, Replicas& replicas, const ParameterMap& map, Towers& towers);
  ~ShardRunner();
  ShardRunner(const ShardRunner&) = delete;
  ShardRunner& operator=(const ShardRunner&) = delete;

  /// Starts to load all shards onto the devices of their towers. Throws what is wrong with the
  /// batch. A device that fails is left to the step, which may be replayed without it.
  void stage(detail::Shards& shards);

  /// Loads, where that was not done before, and computes the shards of a tower, on its thread.
  void run(Tower& tower, const detail::ShardWork& work);

 private:
  void load(Tower& tower, detail::Shards& shards);
  void count_pending(Tower& tower, detail::Shards& shards) const;
  void run_shard(Tower& tower, const detail::ShardWork& work);
  void run_whole_batch(Tower& tower, const detail::ShardWork& work);
  bool begin_shard(Tower& tower, detail::Shards& shards);
  void end_forward(Tower& tower);
  void end_shard(Tower& tower);
  void backward(Tower& tower, const std::vector<torch::Tensor>& roots,
                const std::vector<torch::Tensor>& slopes) const;
  std::vector<collective::TensorList> run_head(Tower& tower, const detail::ShardWork& work,
                                               const std::vector<collective::TensorList>& rows);
  void clip(Tower& tower) const;
  void gradient_ready(Place place, std::size_t parameter);
  void add_gradient(Tower& tower, std::size_t parameter, torch::Tensor gradient) const;

  // Constant after construction.
  const Method& method_;
  Replicas& replicas_;
  const ParameterMap& map_;
  Towers& towers_;
  std::vector<c10::Stream> input_streams_;  // by place; empty on the CPU
  device::TensorNames names_;               // of parameters, for reports of placement
};

}  // namespace lockstep::strategy
