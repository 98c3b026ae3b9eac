#pragma once

#include <cstdint>

namespace lockstep::softmax {

/// The rows of a block of logits, and where what is made of them goes.
struct Block {
  float* logits = nullptr;  ///< [rows, classes], without the bias; overwritten
  std::int64_t rows = 0, classes = 0;
  const float* bias = nullptr;           ///< [classes]; null: none
  const std::int64_t* labels = nullptr;  ///< [rows], each in [0, classes)
  double smoothing = 0;
  double* losses = nullptr;  ///< [rows]: the cross entropies
  /// Whether `logits` are to become the gradient of the sum of losses by them.
  bool gradient = false;
  float* bias_gradient = nullptr;  ///< [classes], added to if not null; with `gradient`
};

/// Softmax, cross entropy and its gradient, two or three passes over a row while it is in the
/// cache. Not-a-number and infinite logits give a loss that is not finite.
void cross_entropy(const Block& block);

}  // namespace lockstep::softmax
