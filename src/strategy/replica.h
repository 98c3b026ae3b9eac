#pragma once

// A tower's replica of the model, and the tensors that all replicas have in common.

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "arena/arena.h"

namespace lockstep::strategy {

/// One replica: its module and what is registered there.
struct Replica {
  std::shared_ptr<torch::nn::Module> module;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;  ///< it and all inside it
  arena::Tensors tensors;
  std::vector<torch::Tensor> buffers;  ///< flat, one a dtype: its own copy
};

/// All replicas of a model in one memory. Parameters, trainable or frozen, exist once and every
/// replica views them; buffers exist once a replica. The first replica is the one that the caller
/// sees and may write to between steps.
class Replicas {
 public:
  /// Seats the parameters of all modules; the first one's values count. Throws ConfigError when the
  /// modules differ, or have nothing to train.
  explicit Replicas(std::vector<std::shared_ptr<torch::nn::Module>> modules);

  Replica& operator[](int tower) { return replicas_[static_cast<std::size_t>(tower)]; }

  const std::vector<arena::Layout>& layouts() const { return layouts_; }
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }  ///< flat
  const std::vector<arena::Layout>& buffer_layouts() const { return buffer_layouts_; }

  /// Takes over what the caller did to the first replica since the last step: tensors that
  /// torch::load put in place of seated ones, buffers, training modes.
  void adopt();

  void begin_shard(int tower);                      ///< buffers as they were at adopt()
  std::vector<torch::Tensor> end_shard(int tower);  ///< a copy of what the shard made of them
  void restore_buffers();                           ///< of all replicas, as at adopt()

  /// Floating-point buffers become the mean over shards, in shard order; others take the first
  /// shard's value. `by_shard` holds what end_shard returned, empty ones left out.
  void set_buffers(const std::vector<std::vector<torch::Tensor>>& by_shard);

 private:
  void seat_all();

  std::vector<Replica> replicas_;
  std::vector<arena::Layout> layouts_, buffer_layouts_;
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> buffers_;  // what a step starts from
};

}  // namespace lockstep::strategy
