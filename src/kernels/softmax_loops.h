#pragma once

#include <cstdint>

namespace lockstep::kernels::softmax {

/// Logits of some classes, [classes, rows], to which a bias for each class is still to be added.
struct Block {
  float* logits = nullptr;
  std::int64_t classes = 0, rows = 0;
  const float* bias = nullptr;  ///< [classes]; null: none
};

/// largest[row] = the largest of itself and the row's logits.
void raise_largest(const Block& block, float* largest);

/// logits = e^(logit + bias - largest[row]), in place, and adds them up in sums[row]. What is no
/// number or infinite makes the sum no number.
void exponentiate(const Block& block, const float* largest, double* sums);

}  // namespace lockstep::kernels::softmax
