#pragma once

// The update of one slice: parameters, slots and moving average in one pass over memory.

#include <torch/torch.h>

#include <array>
#include <map>
#include <span>
#include <vector>

#include "arena/arena.h"
#include "optim/rules.h"
#include "optim/slots.h"

namespace lockstep::optim {

/// What changes from update to update.
struct Moment {
  std::int64_t updates = 0;  ///< done before this one
  double clip_factor = 1;    ///< the gradient is multiplied by it
  double average_keep = 0;   ///< decay of the moving average in this update

  // By parameter, of the list that the layout was made from.
  std::span<const std::int64_t> numbers = {};  ///< its updates before; empty: `updates`
  std::span<const char> selected = {};         ///< its average may move; empty: all

  double compensation = 0;  ///< see Asynchrony; for an update that was retargeted
};

/// Owns the slots of one tower's slice of one arena: flats, as long as the slice, that exist
/// nowhere else. Each parameter has the slots of its own optimizer in them, the first in the first.
/// Works in cache-sized blocks, so that the few operators an optimizer takes cost one pass over
/// memory. All functions update in place. `apply` allocates nothing on the device: an update that
/// has begun does not run out of memory.
class SliceUpdate {
 public:
  /// `layout` must live on. `parameters` and `gradient` are the slice's part of their arenas. Slots
  /// start at their initial values; the moving average, if wanted, at what the parameters are
  /// before the first update.
  SliceUpdate(const arena::Layout& layout, arena::Slice range, torch::Tensor parameters,
              torch::Tensor gradient, const Method& method);

  /// By the optimizers of `method`, the one it was made with or another with the same slots. A
  /// parameter without a gradient, by `reached` (empty: all have one), is left alone, slots and
  /// weight decay included, as torch::optim does.
  void apply(const Method& method, Moment moment, std::span<const char> reached = {});

  /// From now on updates read the parameters `from`, and write them `into`; both may be the same.
  /// `gradient` is what they apply, `then` the parameters it was computed with, for compensation.
  /// All are as long as the slice, and live on as long as this does.
  void retarget(const torch::Tensor& from, const torch::Tensor& into, const torch::Tensor& gradient,
                const torch::Tensor& then);

  /// Sets the slots of the parameters in `chosen` to what the optimizers of `method` begin with.
  void reset(const Method& method, std::span<const char> chosen);

  /// Exchanges parameters and moving average. Allocates nothing: prepare_swap() did.
  void swap_average();
  void prepare_swap();

  arena::Slice range() const { return range_; }
  const std::vector<torch::Tensor>& slots() const { return slots_; }
  const torch::Tensor& average() const { return average_; }  ///< undefined without one
  const torch::Tensor& gradient() const { return gradient_; }

 private:
  struct Block {
    Terms terms;
    arena::Slice range;
    torch::Tensor parameter, gradient, average = {};
    std::vector<torch::Tensor> slots = {};
    torch::Tensor from = {}, then = {};  // where it was retargeted
  };

  void cut_blocks(const Method& method);
  const std::vector<torch::Tensor>& cuts_of(const torch::Tensor& flat);
  void compensate(const Block& block, double lambda);
  void update_block(Block& block, const Method& method, const Moment& moment,
                    std::span<const char> reached);
  template <class Key, class Work>
  void for_runs(const Block& block, const Key& key, const Work& work) const;
  void optimize(const Block& block, const Method& method, std::int64_t number);
  std::int64_t longest_block() const;

  const arena::Layout& layout_;
  const arena::Slice range_;
  torch::Tensor parameters_, gradient_, average_;
  torch::Tensor number_;     // of the update at work, from 1, where the fused kernels look for it
  std::int64_t filled_ = 0;  // what number_ holds
  std::vector<torch::Tensor> slots_;
  std::vector<Block> blocks_;
  std::map<const void*, std::vector<torch::Tensor>> cuts_;  // of flats it was retargeted to: blocks
  std::array<torch::Tensor, 2> scratch_;  // as long as the longest block, where it is needed
};

}  // namespace lockstep::optim
