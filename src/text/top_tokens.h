#pragma once

// The most likely tokens of each row: all that a search brings to the host.

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::text {

struct ScoredToken {
  float log_probability;
  std::int32_t token;
};

/// At most `count` of the tokens that a text may have (kEnd and those after it) in each row of
/// `log_probabilities`, float [rows, vocabulary]: best first, the lower token among equals.
/// Impossible ones (minus infinity, not a number) are left out.
class TopTokens {
 public:
  TopTokens(const torch::Tensor& log_probabilities, std::int64_t count);

  /// Throws NonFiniteError if there is none.
  std::span<const ScoredToken> of(std::int64_t row) const;

 private:
  void scan(const torch::Tensor& values);
  void ask_device(const torch::Tensor& values);

  std::int64_t count_;
  std::vector<std::vector<ScoredToken>> rows_;
};

/// Without the columns of tokens that are never chosen: column i is of token kEnd + i.
torch::Tensor decodable(const torch::Tensor& log_probabilities);

[[noreturn]] void throw_nothing_possible(std::int64_t row);

}  // namespace lockstep::text
