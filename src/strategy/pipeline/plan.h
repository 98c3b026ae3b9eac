#pragma once

// Which stage has which parameter, and how a stage's arenas are laid out.

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arena/arena.h"
#include "strategy/tower.h"

namespace lockstep::strategy {

/// The parameters in the graph of `outputs`, by their number among `trainable` and `frozen`.
struct Used {
  std::vector<char> trainable, frozen;
  void join(const Used& other);
};
Used used_by(const std::vector<torch::Tensor>& outputs, const arena::Tensors& tensors);

/// Who has what. A trainable parameter has one owner, the lowest stage that uses it, which sums its
/// gradient and updates it. What a stage holds and does not own is a copy. A parameter that no
/// graph shows, and one of a single element, is held by all stages: it may be read without a trace.
class StagePlan {
 public:
  /// `used` by stage.
  StagePlan(const std::vector<Used>& used, const arena::Tensors& tensors);

  std::size_t owner(std::size_t parameter) const { return owners_[parameter]; }
  bool holds(std::size_t stage, std::size_t parameter) const {
    return holds_[stage].trainable[parameter] != 0;
  }
  bool holds_frozen(std::size_t stage, std::size_t parameter) const {
    return holds_[stage].frozen[parameter] != 0;
  }
  /// Whether the stage's graph had it in the trial: only there it may get a gradient.
  bool uses(std::size_t stage, std::size_t parameter) const {
    return used_[stage].trainable[parameter] != 0;
  }
  std::size_t stages() const { return used_.size(); }

 private:
  std::vector<Used> used_, holds_;  // by stage
  std::vector<std::size_t> owners_;
};

/// The arenas of one stage: runs of neighbours in the arenas of the whole model. A run begins in a
/// block of its own, at the same place of it as in the whole arena: so each block here is a block
/// there, and what is summed block by block does not depend on stages. Seats keep the numbers of
/// the whole model.
struct StageLayout {
  StageLayout(const std::vector<arena::Layout>& whole, const StagePlan& plan, std::size_t stage);

  std::vector<arena::Layout> layouts;
  std::vector<std::size_t> whole_layout;          ///< by layout: its number in the whole model
  std::vector<std::vector<std::int64_t>> blocks;  ///< by layout and block: the block there
};

/// The norm of the gradient over all stages, in the order of the whole model's blocks.
class StageNorm {
 public:
  /// `whole` and `stages` must live on.
  StageNorm(const std::vector<arena::Layout>& whole, const std::vector<StageLayout>& stages);

  /// Takes over the blocks of a tower's slices after `reduce`; on its thread. `buckets` are those
  /// of its slices.
  void bring(std::size_t stage, const Tower& tower, const std::vector<arena::Bucket>& buckets);

  /// The sum of the squares, when all towers have brought theirs.
  double squares(DeviceKind kind);

 private:
  using Block = std::pair<std::size_t, std::int64_t>;  // of an arena of the whole model
  using OwnBlock = std::tuple<std::size_t, std::size_t, std::size_t>;  // stage, layout, block there

  const std::vector<StageLayout>& stages_;
  std::vector<std::vector<double>> squares_;  // by arena and block
  // Blocks of which several runs have a part: a row for each.
  std::map<Block, torch::Tensor> joints_;
  std::map<OwnBlock, torch::Tensor> rows_;
};

}  // namespace lockstep::strategy
