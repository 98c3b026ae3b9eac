#include "text/top_tokens.h"

#include <ATen/Parallel.h>
#include <lockstep/error.h>
#include <lockstep/text/sequence_batch.h>

#include <algorithm>
#include <limits>

namespace lockstep::text {
namespace {

static_assert(kPad < kEnd && kUnknown < kEnd && kBegin < kEnd && kEnd + 1 == kFirstOwnToken);

bool scores_higher(const ScoredToken& a, const ScoredToken& b) {
  return a.log_probability > b.log_probability ||
         (a.log_probability == b.log_probability && a.token < b.token);
}

bool any_above(std::span<const float> values, float bound) {
  unsigned found = 0;  // without a branch, so that it is a handful of vector instructions
  for (const float value : values) found |= static_cast<unsigned>(value > bound);
  return found != 0;
}

/// Keeps the best `count` in a heap whose top is the worst of them. Nearly all blocks have nothing
/// above it and are passed at the speed of memory.
std::vector<ScoredToken> best_of(std::span<const float> values, std::size_t count) {
  constexpr std::size_t kBlock = 128;
  std::vector<ScoredToken> best;
  best.reserve(count);
  float bound = -std::numeric_limits<float>::infinity();
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, values.size());
    if (!any_above(values.subspan(begin, end - begin), bound)) continue;
    for (std::size_t i = begin; i < end; ++i) {
      if (!(values[i] > bound)) continue;
      if (best.size() == count) {
        std::pop_heap(best.begin(), best.end(), scores_higher);
        best.pop_back();
      }
      best.push_back({values[i], kEnd + static_cast<std::int32_t>(i)});
      std::push_heap(best.begin(), best.end(), scores_higher);
      if (best.size() == count) bound = best.front().log_probability;
    }
  }
  std::sort_heap(best.begin(), best.end(), scores_higher);
  return best;
}

}  // namespace

torch::Tensor decodable(const torch::Tensor& log_probabilities) {
  check(log_probabilities.dim() == 2 && log_probabilities.size(1) > kEnd,
        "the log probabilities of a TokenModel must be [rows, vocabulary], with a column of kEnd");
  return log_probabilities.narrow(1, kEnd, log_probabilities.size(1) - kEnd).to(torch::kFloat32);
}

void throw_nothing_possible(std::int64_t row) {
  throw NonFiniteError("the model gives no token a probability, in row " + std::to_string(row) +
                       " of its batch: its weights or its input are not finite");
}

TopTokens::TopTokens(const torch::Tensor& log_probabilities, std::int64_t count)
    : rows_(static_cast<std::size_t>(log_probabilities.size(0))) {
  const torch::Tensor values = decodable(log_probabilities);
  count_ = std::min(count, values.size(1));
  if (values.is_cpu())
    scan(values);
  else
    ask_device(values);
}

void TopTokens::scan(const torch::Tensor& values) {
  const torch::Tensor dense = values.stride(1) == 1 ? values : values.contiguous();
  const float* data = dense.const_data_ptr<float>();
  const std::int64_t stride = dense.stride(0);
  const auto columns = static_cast<std::size_t>(dense.size(1));
  at::parallel_for(0, dense.size(0), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      rows_[static_cast<std::size_t>(row)] =
          best_of({data + row * stride, columns}, static_cast<std::size_t>(count_));
  });
}

void TopTokens::ask_device(const torch::Tensor& values) {
  const auto [best, places] = values.topk(count_, 1);
  const torch::Tensor scores = best.cpu(), columns = places.cpu();
  const auto score = scores.accessor<float, 2>();
  const auto column = columns.accessor<std::int64_t, 2>();
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const auto at = static_cast<std::int64_t>(row);
    for (std::int64_t i = 0; i < count_; ++i)
      if (score[at][i] > -std::numeric_limits<float>::infinity())
        rows_[row].push_back({score[at][i], kEnd + static_cast<std::int32_t>(column[at][i])});
    std::sort(rows_[row].begin(), rows_[row].end(), scores_higher);
  }
}

std::span<const ScoredToken> TopTokens::of(std::int64_t row) const {
  const std::vector<ScoredToken>& tokens = rows_[static_cast<std::size_t>(row)];
  if (tokens.empty()) throw_nothing_possible(row);
  return tokens;
}

}  // namespace lockstep::text
