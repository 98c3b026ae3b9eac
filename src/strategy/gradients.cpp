#include "strategy/gradients.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "collective/kernels.h"

namespace lockstep::strategy {
namespace {

/// sum += term, in place; whether all elements of the sum are finite, as far as the CPU can tell
/// in the same pass over memory.
bool add_finite(torch::Tensor& sum, const torch::Tensor& term) {
  if (!sum.is_cpu()) {
    sum.add_(term);
    return true;
  }
  const auto dtype = sum.scalar_type();
  const auto width = static_cast<std::int64_t>(sum.element_size());
  auto* into = static_cast<std::byte*>(sum.mutable_data_ptr());
  const auto* from = static_cast<const std::byte*>(term.const_data_ptr());
  double squares = 0;
  for (std::int64_t i = 0; i < sum.numel(); i += arena::kBlock) {
    const std::int64_t n = std::min(arena::kBlock, sum.numel() - i);
    collective::add(dtype, into + i * width, into + i * width, from + i * width, n);
    squares += collective::squares(dtype, into + i * width, n);
  }
  return std::isfinite(squares);
}

double squares(const torch::Tensor& gradient) {
  if (!gradient.defined()) return 0;
  if (!gradient.is_cpu()) return gradient.to(torch::kFloat64).square().sum().item<double>();
  return collective::squares(gradient.scalar_type(), gradient.const_data_ptr(), gradient.numel());
}

}  // namespace

double squares_of(const torch::Tensor& gradient) { return squares(gradient); }

torch::Tensor take_gradient(torch::Tensor& tensor, const arena::Seat& seat) {
  const torch::NoGradGuard no_grad;
  torch::Tensor gradient = std::move(tensor.mutable_grad());
  tensor.mutable_grad() = torch::Tensor();
  if (!gradient.defined()) return gradient;
  if (gradient.is_sparse()) gradient = gradient.to_dense();
  // Dense, of its dtype, in its memory order, and nobody else's: autograd may leave two parameters
  // with views of one tensor, and sums go in place.
  const bool fits =
      gradient.strides() == seat.strides && gradient.scalar_type() == tensor.scalar_type();
  if (fits && gradient.storage().use_count() == 1) return gradient;
  return torch::empty_strided(seat.sizes, seat.strides, tensor.options()).copy_(gradient);
}

void drop_gradients(std::vector<arena::Entry>& trainable) {
  for (arena::Entry& entry : trainable) entry.tensor.mutable_grad() = torch::Tensor();
}

void clip_to_norm(std::vector<torch::Tensor>& gradients, double weight, double limit) {
  double sum = 0;
  for (const torch::Tensor& gradient : gradients) sum += squares(gradient);
  const double norm = std::sqrt(sum) / weight;
  if (!(norm > limit)) return;
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& gradient : gradients)
    if (gradient.defined()) gradient.mul_(limit / norm);
}

TreeSum::TreeSum(int first, int end, int shards, std::size_t parameters, Reduction reduction,
                 int tower)
    : first_(first) {
  const bool fast = reduction == Reduction::fast;
  for (int shard = first; shard < end; ++shard) {
    sums_.push_back({fast ? tower : shard, std::vector<torch::Tensor>(parameters)});
    if (!fast)
      merges_.push_back(collective::merges_after(shard, first, shards));
    else
      merges_.push_back(shard == first ? std::vector<collective::Merge>{}
                                       : std::vector<collective::Merge>{{first, shard}});
  }
}

void TreeSum::add(int shard, std::size_t parameter, torch::Tensor gradient) {
  gradients(shard)[parameter] = std::move(gradient);
  for (const collective::Merge& step : merges_[static_cast<std::size_t>(shard - first_)])
    merge(parameter, step);
}

void TreeSum::add_first(int shard, std::size_t parameter, torch::Tensor gradient) {
  gradients(shard)[parameter] = std::move(gradient);
  const auto& steps = merges_[static_cast<std::size_t>(shard - first_)];
  if (!steps.empty()) merge(parameter, steps.front());
}

void TreeSum::finish(int shard) {
  for (const collective::Merge& step : merges_[static_cast<std::size_t>(shard - first_)])
    for (std::size_t parameter = 0; parameter < gradients(shard).size(); ++parameter)
      merge(parameter, step);
}

void TreeSum::clear() {
  for (collective::ShardSum& sum : sums_)
    for (torch::Tensor& gradient : sum.gradients) gradient = torch::Tensor();
  suspect_ = -1;
}

void TreeSum::merge(std::size_t parameter, const collective::Merge& step) {
  torch::Tensor term = std::move(gradients(step.from)[parameter]);
  torch::Tensor& sum = gradients(step.into)[parameter];
  if (!term.defined()) return;
  if (!sum.defined()) {
    sum = std::move(term);
    return;
  }
  const torch::NoGradGuard no_grad;
  // A bad shard shows in its first merge, while the other side is still finite.
  if (!add_finite(sum, term) && suspect_ < 0)
    suspect_ = std::isfinite(squares(term)) ? step.into : step.from;
}

int TreeSum::non_finite_shard() const {
  if (suspect_ >= 0) return suspect_;
  for (std::size_t i = 0; i < sums_.size(); ++i)
    for (const torch::Tensor& gradient : sums_[i].gradients)
      if (!std::isfinite(squares(gradient))) return first_ + static_cast<int>(i);
  return -1;
}

}  // namespace lockstep::strategy
