#pragma once

// Mixed precision: parameters, gradients and optimizer slots stay float32; the matrix products and
// convolutions of the forward pass, and so those of the backward pass, compute in fewer bits.

#include <cstdint>

namespace lockstep {

enum class Precision {
  float32,   ///< no mixed precision
  bfloat16,  ///< the range of float32, 8 bits of precision
  float16,   ///< 11 bits of precision, but a small range: needs loss scaling
};

/// Gradients in float16 are lost below 6e-8. So the loss is multiplied by a scale and the gradients
/// are divided by it again: both exact, as the scale is a power of two. A step whose gradients
/// overflow is skipped.
struct LossScaling {
  double initial = 65536;      ///< the first scale: a power of two from 1 to 2^24
  int growth_interval = 2000;  ///< this many good steps in a row double the scale, up to 2^24
};

}  // namespace lockstep
