#pragma once

// Pairs of token sequences, padded to a rectangle: what a sequence-to-sequence model trains on.

#include <lockstep/text/tokens.h>
#include <torch/torch.h>

#include <cstdint>
#include <tuple>

namespace lockstep::text {

struct SequenceBatch {
  torch::Tensor source = {};   ///< int64 [rows, source length]: tokens, then kPad
  torch::Tensor lengths = {};  ///< int64 [rows]: tokens of each source, at least 1
  torch::Tensor target = {};   ///< int64 [rows, target length + 2]: kBegin, tokens, kEnd, kPad
  std::int64_t bucket = 0;     ///< whose lengths the rows have
  std::int64_t index = 0;      ///< the batch's number in its epoch

  /// For `batch::part`, `batch::rows` and `batch::to`: see batch.h.
  auto tensors() { return std::tie(source, lengths, target); }
};

}  // namespace lockstep::text
