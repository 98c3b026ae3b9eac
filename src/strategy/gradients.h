#pragma once

// A shard's gradient, from where autograd left it to its place in the tree.

#include <lockstep/method.h>
#include <torch/torch.h>

#include <vector>

#include "arena/arena.h"
#include "collective/collective.h"
#include "collective/tree.h"

namespace lockstep::strategy {

/// The gradient that autograd has just accumulated, in the memory order of the tensor's seat. Moved
/// out, not copied: the tensor is left without one. Call from its hook. See "Note: stolen
/// gradients".
torch::Tensor take_gradient(torch::Tensor& tensor, const arena::Seat& seat);

void drop_gradients(std::vector<arena::Entry>& trainable);

/// The sum of the squares of a gradient's elements; 0 for an undefined one.
double squares_of(const torch::Tensor& gradient);

/// Scales in place so that the norm of gradient / weight is at most `limit`.
void clip_to_norm(std::vector<torch::Tensor>& gradients, double weight, double limit);

/// The ShardSums of one tower. Whatever two neighbours of the tree are there is summed at once, in
/// place, parameter by parameter, so that few subtrees are held at a time.
class TreeSum {
 public:
  /// Of shards [first, end) of all `shards`. In `fast` reduction they are one sum, which counts as
  /// shard `tower`.
  TreeSum(int first, int end, int shards, std::size_t parameters, Reduction reduction, int tower);

  void add(int shard, std::size_t parameter, torch::Tensor gradient);
  /// The same, but what else becomes possible with this sum is left to finish().
  void add_first(int shard, std::size_t parameter, torch::Tensor gradient);
  void finish(int shard);  ///< no gradient of this shard is to come
  void clear();

  const std::vector<collective::ShardSum>& sums() const { return sums_; }

  /// The first shard whose gradient, as it was added, was not finite; -1 if none was. Where shards
  /// were merged on an accelerator, the first of those that were.
  int non_finite_shard() const;

 private:
  std::vector<torch::Tensor>& gradients(int shard) {
    return sums_[static_cast<std::size_t>(shard - first_)].gradients;
  }
  void merge(std::size_t parameter, const collective::Merge& merge);

  int first_;
  std::vector<std::vector<collective::Merge>> merges_;  // that a shard makes possible
  std::vector<collective::ShardSum> sums_;              // by shard
  int suspect_ = -1;
};

}  // namespace lockstep::strategy
