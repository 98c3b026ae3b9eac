#pragma once

// A shard's gradient, from where autograd left it to its place in the tree.

#include <torch/torch.h>

#include <vector>

#include "arena/arena.h"
#include "collective/collective.h"

namespace lockstep::strategy {

/// The gradient of each tensor of `trainable`, undefined where there is none, in the memory order
/// of its seat. Moved out, not copied: the tensors are left without one. See "Note: stolen
/// gradients".
std::vector<torch::Tensor> take_gradients(std::vector<arena::Entry>& trainable,
                                          const std::vector<arena::Layout>& layouts);

void drop_gradients(std::vector<arena::Entry>& trainable);

/// Sum of the squares of all elements.
double squares(const std::vector<torch::Tensor>& gradients);

/// Scales in place so that the norm of gradient / weight is at most `limit`.
void clip_to_norm(std::vector<torch::Tensor>& gradients, double weight, double limit);

/// The ShardSums of one tower, which computes shards from `first` on. Holds a few subtrees at most:
/// whatever two neighbours of the tree are there is summed at once, in place.
class TreeSum {
 public:
  TreeSum(int first, int shards) : first_(first), shards_(shards) {}

  void add(int shard, std::vector<torch::Tensor> gradients);
  void finish(int shard);  ///< a shard that adds nothing: empty
  void clear();

  const std::vector<collective::ShardSum>& sums() const { return sums_; }

  /// The first shard whose gradient, as it was added, was not finite; -1 if none was.
  int non_finite_shard() const;

 private:
  void merge(int into, int from);

  const int first_, shards_;
  std::vector<collective::ShardSum> sums_;
  int suspect_ = -1;
};

}  // namespace lockstep::strategy
