#pragma once

// Pairs of token sequences, padded to a rectangle: what a sequence-to-sequence model trains on.

#include <torch/torch.h>

#include <cstdint>
#include <tuple>

namespace lockstep {

/// Tokens that every vocabulary begins with.
inline constexpr std::int32_t kPad = 0, kUnknown = 1, kBegin = 2, kEnd = 3, kFirstOwnToken = 4;

struct SequenceBatch {
  torch::Tensor source = {};   ///< int64 [rows, source length]: tokens, then kPad
  torch::Tensor lengths = {};  ///< int64 [rows]: tokens of each source, at least 1
  torch::Tensor target = {};   ///< int64 [rows, target length + 2]: kBegin, tokens, kEnd, kPad
  std::int64_t bucket = 0;     ///< whose lengths the rows have

  /// For `part`, `rows` and `to`: see batch.h.
  auto tensors() { return std::tie(source, lengths, target); }
};

}  // namespace lockstep
