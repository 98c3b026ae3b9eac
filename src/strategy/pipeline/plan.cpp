#include "strategy/pipeline/plan.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "collective/block_squares.h"

namespace lockstep::strategy {

using arena::kBlock;

Used used_by(const std::vector<torch::Tensor>& outputs, const arena::Tensors& tensors) {
  Used used{std::vector<char>(tensors.trainable.size()), std::vector<char>(tensors.frozen.size())};
  std::unordered_map<const void*, char*> flags;
  for (std::size_t i = 0; i < tensors.trainable.size(); ++i)
    flags[tensors.trainable[i].tensor.unsafeGetTensorImpl()] = &used.trainable[i];
  for (std::size_t i = 0; i < tensors.frozen.size(); ++i)
    flags[tensors.frozen[i].tensor.unsafeGetTensorImpl()] = &used.frozen[i];
  std::vector<const torch::autograd::Node*> left;
  std::unordered_set<const void*> seen;
  const auto visit = [&](const torch::autograd::Node* node) {
    if (node && seen.insert(node).second) left.push_back(node);
  };
  const auto note = [&](const torch::Tensor& leaf) {
    if (const auto flag = flags.find(leaf.unsafeGetTensorImpl()); flag != flags.end())
      *flag->second = 1;
  };
  for (const torch::Tensor& output : outputs) {
    if (!output.defined()) continue;
    note(output);  // should it be a parameter itself
    visit(output.grad_fn().get());
  }
  while (!left.empty()) {
    const torch::autograd::Node* node = left.back();
    left.pop_back();
    if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node))
      note(leaf->variable);
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
  return used;
}

void Used::join(const Used& other) {
  const auto add = [](std::vector<char>& flags, const std::vector<char>& more) {
    flags.resize(more.size());
    for (std::size_t i = 0; i < more.size(); ++i)
      if (more[i]) flags[i] = 1;
  };
  add(trainable, other.trainable);
  add(frozen, other.frozen);
}

StagePlan::StagePlan(const std::vector<Used>& used, const arena::Tensors& tensors)
    : used_(used), holds_(used), owners_(tensors.trainable.size(), used.size() - 1) {
  const auto settle = [&](std::vector<char> Used::*list, std::size_t i, std::int64_t numel) {
    const bool shown =
        std::ranges::any_of(used_, [&](const Used& each) { return (each.*list)[i]; });
    for (Used& each : holds_)
      if (!shown || numel <= 1) (each.*list)[i] = 1;
  };
  for (std::size_t i = 0; i < tensors.trainable.size(); ++i) {
    settle(&Used::trainable, i, tensors.trainable[i].tensor.numel());
    for (std::size_t stage = used_.size(); stage-- > 0;)
      if (used_[stage].trainable[i]) owners_[i] = stage;
  }
  for (std::size_t i = 0; i < tensors.frozen.size(); ++i)
    settle(&Used::frozen, i, tensors.frozen[i].tensor.numel());
}

StageLayout::StageLayout(const std::vector<arena::Layout>& whole, const StagePlan& plan,
                         std::size_t stage) {
  for (std::size_t i = 0; i < whole.size(); ++i) {
    arena::Layout own{.dtype = whole[i].dtype};
    std::vector<std::int64_t> there;
    std::int64_t shift = 0;  // of the run at work: a multiple of kBlock
    bool running = false;
    for (auto seat = whole[i].seats.begin(); seat != whole[i].seats.end(); ++seat) {
      if (plan.owner(seat->entry) != stage) {
        running = false;
        continue;
      }
      if (!running) shift = own.blocks() * kBlock - seat->offset / kBlock * kBlock;
      running = true;
      own.seats.push_back(*seat);
      own.seats.back().offset += shift;
      const auto next = std::next(seat);
      own.size = (next == whole[i].seats.end() ? whole[i].size : next->offset) + shift;
      while (static_cast<std::int64_t>(there.size()) < own.blocks())
        there.push_back(static_cast<std::int64_t>(there.size()) - shift / kBlock);
    }
    if (own.seats.empty()) continue;
    layouts.push_back(std::move(own));
    whole_layout.push_back(i);
    blocks.push_back(std::move(there));
  }
}

StageNorm::StageNorm(const std::vector<arena::Layout>& whole,
                     const std::vector<StageLayout>& stages)
    : stages_(stages) {
  for (const arena::Layout& layout : whole)
    squares_.emplace_back(static_cast<std::size_t>(layout.blocks()));
  std::map<Block, std::vector<OwnBlock>> sharers;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage)
    for (std::size_t i = 0; i < stages_[stage].layouts.size(); ++i)
      for (std::size_t k = 0; k < stages_[stage].blocks[i].size(); ++k)
        sharers[{stages_[stage].whole_layout[i], stages_[stage].blocks[i][k]}].push_back(
            {stage, i, k});
  for (const auto& [block, parts] : sharers) {
    if (parts.size() == 1) continue;
    const auto count = static_cast<std::int64_t>(parts.size());
    joints_[block] =
        torch::zeros({count, kBlock}, torch::dtype(whole[block.first].dtype).device(torch::kCPU));
    for (std::int64_t row = 0; row < count; ++row)
      rows_[parts[static_cast<std::size_t>(row)]] = joints_[block][row];
  }
}

void StageNorm::bring(std::size_t stage, const Tower& tower,
                      const std::vector<arena::Bucket>& buckets) {
  const torch::NoGradGuard no_grad;
  const StageLayout& own = stages_[stage];
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const collective::GradientSlice& slice = tower.slices[i];
    const std::size_t layout = buckets[i].arena, arena = own.whole_layout[layout];
    for (std::size_t k = 0; k < slice.squares.size(); ++k) {
      const std::int64_t local = static_cast<std::int64_t>(k) * kBlock;
      const auto block = static_cast<std::size_t>((slice.range.begin + local) / kBlock);
      const auto row = rows_.find({stage, layout, block});
      if (row == rows_.end()) {
        squares_[arena][static_cast<std::size_t>(own.blocks[layout][block])] = slice.squares[k];
        continue;
      }
      const std::int64_t n = std::min(kBlock, slice.range.size() - local);
      row->second.narrow(0, 0, n).copy_(slice.gradient.narrow(0, local, n));
    }
  }
}

double StageNorm::squares(DeviceKind kind) {
  const torch::NoGradGuard no_grad;
  for (const auto& [block, rows] : joints_) {
    torch::Tensor joined = torch::zeros_like(rows[0]);
    for (const torch::Tensor& row : rows.unbind(0)) joined.add_(row);  // all but one are 0
    const torch::Tensor sum = kind == DeviceKind::gpu ? collective::block_squares_by_halves(joined)
                                                      : collective::block_squares(joined);
    squares_[block.first][static_cast<std::size_t>(block.second)] = sum.item<double>();
  }
  double total = 0;
  for (const std::vector<double>& arena : squares_)
    for (const double block : arena) total += block;
  return total;
}

}  // namespace lockstep::strategy
