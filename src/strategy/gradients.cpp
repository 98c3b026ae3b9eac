#include "strategy/gradients.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "collective/kernels.h"
#include "collective/tree.h"

namespace lockstep::strategy {
namespace {

/// `gradient` as the seat wants it: dense, its dtype, its memory order, and nobody else's: autograd
/// may leave two parameters with views of one tensor, and sums go in place.
torch::Tensor conform(torch::Tensor gradient, const arena::Seat& seat, torch::Dtype dtype) {
  if (gradient.is_sparse()) gradient = gradient.to_dense();
  const bool fits = gradient.strides() == seat.strides && gradient.scalar_type() == dtype;
  if (fits && gradient.storage().use_count() == 1) return gradient;
  return torch::empty_strided(seat.sizes, seat.strides, gradient.options().dtype(dtype))
      .copy_(gradient);
}

/// sum += term, in place; whether all elements of the sum are finite. One pass over memory.
bool add_finite(torch::Tensor& sum, const torch::Tensor& term) {
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

}  // namespace

std::vector<torch::Tensor> take_gradients(std::vector<arena::Entry>& trainable,
                                          const std::vector<arena::Layout>& layouts) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients(trainable.size());
  for (const arena::Layout& layout : layouts)
    for (const arena::Seat& seat : layout.seats) {
      torch::Tensor& source = trainable[seat.entry].tensor.mutable_grad();
      if (!source.defined()) continue;
      gradients[seat.entry] = conform(std::move(source), seat, layout.dtype);
      source = torch::Tensor();
    }
  return gradients;
}

void drop_gradients(std::vector<arena::Entry>& trainable) {
  for (arena::Entry& entry : trainable) entry.tensor.mutable_grad() = torch::Tensor();
}

double squares(const std::vector<torch::Tensor>& gradients) {
  double sum = 0;
  for (const torch::Tensor& gradient : gradients)
    if (gradient.defined())
      sum +=
          collective::squares(gradient.scalar_type(), gradient.const_data_ptr(), gradient.numel());
  return sum;
}

void clip_to_norm(std::vector<torch::Tensor>& gradients, double weight, double limit) {
  const double norm = std::sqrt(squares(gradients)) / weight;
  if (!(norm > limit)) return;
  for (torch::Tensor& gradient : gradients)
    if (gradient.defined())
      collective::scale(gradient.scalar_type(), gradient.mutable_data_ptr(),
                        gradient.const_data_ptr(), limit / norm, gradient.numel());
}

void TreeSum::add(int shard, std::vector<torch::Tensor> gradients) {
  sums_.push_back({shard, std::move(gradients)});
  finish(shard);
}

void TreeSum::finish(int shard) {
  for (const auto& [into, from] : collective::merges_after(shard, first_, shards_))
    merge(into, from);
}

void TreeSum::clear() {
  sums_.clear();
  suspect_ = -1;
}

void TreeSum::merge(int into, int from) {
  const auto find = [this](int first) {
    return std::find_if(sums_.begin(), sums_.end(),
                        [first](const collective::ShardSum& sum) { return sum.first == first; });
  };
  const auto source = find(from), target = find(into);
  if (source == sums_.end()) return;
  if (target == sums_.end()) {  // empty shards: what follows them takes their place
    source->first = into;
    return;
  }
  bool finite = true;
  for (std::size_t i = 0; i < target->gradients.size(); ++i) {
    torch::Tensor& sum = target->gradients[i];
    torch::Tensor& term = source->gradients[i];
    if (!term.defined()) continue;
    if (sum.defined())
      finite &= add_finite(sum, term);
    else
      sum = std::move(term);
  }
  // A bad shard shows in its first merge, while the other side is still finite.
  if (!finite && suspect_ < 0) suspect_ = std::isfinite(squares(source->gradients)) ? into : from;
  sums_.erase(source);
}

int TreeSum::non_finite_shard() const {
  if (suspect_ >= 0) return suspect_;
  for (const collective::ShardSum& sum : sums_)
    if (!std::isfinite(squares(sum.gradients))) return sum.first;
  return -1;
}

}  // namespace lockstep::strategy
