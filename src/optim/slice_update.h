#pragma once

// The update of one slice: parameters, slots and moving average in one pass over memory.

#include <lockstep/optimizer.h>
#include <torch/torch.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "arena/arena.h"
#include "optim/rules.h"

namespace lockstep::optim {

/// A slot of a slice: flat, as long as the slice. It exists nowhere else.
struct Slot {
  std::string name;  ///< "exp_avg"
  torch::Tensor value;
};

/// What a slice is updated with; fixed at construction, but for the learning rate.
struct Plan {
  Optimizer optimizer;
  std::vector<ParameterRule> rules = {};
  bool averaged = false;  ///< keep a moving average
};

/// What changes from update to update.
struct Moment {
  std::int64_t updates = 0;  ///< done before this one
  double clip_factor = 1;    ///< the gradient is multiplied by it
  double average_keep = 0;   ///< decay of the moving average in this update
};

/// Owns the slots of one tower's slice of one arena. Works in cache-sized blocks, so that the few
/// operators an optimizer takes cost one pass over memory. All functions update in place. `apply`
/// allocates nothing on the device: an update that has begun does not run out of memory.
class SliceUpdate {
 public:
  /// `layout` must live on. `parameters` and `gradient` are the slice's part of their arenas. Slots
  /// start at their initial values; the moving average, if wanted, at what the parameters are
  /// before the first update.
  SliceUpdate(const arena::Layout& layout, arena::Slice range, torch::Tensor parameters,
              torch::Tensor gradient, const Plan& plan);

  /// A parameter without a gradient, by `reached` (of the list that the layout was made from;
  /// empty: all have one), is left alone, slots and weight decay included, as torch::optim does.
  void apply(const Optimizer& optimizer, const Moment& moment, std::span<const char> reached = {});

  /// Exchanges parameters and moving average. Allocates nothing: prepare_swap() did.
  void swap_average();
  void prepare_swap();

  std::vector<Slot>& slots() { return slots_; }
  arena::Slice range() const { return range_; }
  const std::vector<Slot>& slots() const { return slots_; }
  const torch::Tensor& average() const { return average_; }  ///< undefined without one
  const torch::Tensor& gradient() const { return gradient_; }

 private:
  struct Block {
    Terms terms;
    arena::Slice range;
    torch::Tensor parameter, gradient, average = {};
    std::vector<torch::Tensor> slots = {};
  };

  void cut_blocks(const Plan& plan);
  void update_block(Block& block, const Optimizer& optimizer, const Moment& moment,
                    std::span<const char> reached);
  std::vector<Block> reached_parts(const Block& block, std::span<const char> reached) const;
  void optimize(const Block& block, const Optimizer& optimizer);
  std::int64_t longest_block() const;

  const arena::Layout& layout_;
  const arena::Slice range_;
  torch::Tensor parameters_, gradient_, average_;
  torch::Tensor number_;  // of the update at work, from 1, where the fused kernels look for it
  std::vector<Slot> slots_;
  std::vector<Block> blocks_;
  std::array<torch::Tensor, 2> scratch_;  // as long as the longest block, where it is needed
};

}  // namespace lockstep::optim
