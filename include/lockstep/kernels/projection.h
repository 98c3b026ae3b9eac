#pragma once

// A projection to a large vocabulary and its cross entropy in one pass that never holds the logits
// of all rows. nn/projection.h makes it a differentiable operation for all devices and precisions.

#include <ATen/ATen.h>

#include <cstdint>

namespace lockstep::kernels {

/// As for nn::projection_cross_entropy, which checks them: float32 on the CPU, labels int64. The
/// bias may be undefined.
struct ProjectionInputs {
  at::Tensor features, weight, bias, labels;
  double smoothing = 0;
  std::int64_t chunk_rows = 1;  ///< whose logits are there at a time
};

/// Which gradients are wanted.
struct WantedGradients {
  bool features = false, weight = false, bias = false;
  bool any() const { return features || weight || bias; }
};

/// The loss, and the gradients that were wanted.
struct ProjectionLoss {
  at::Tensor loss, features, weight, bias;
};

/// The sum over rows of the cross entropy, and its gradients. In single precision on a CPU.
ProjectionLoss projection_cross_entropy(const ProjectionInputs& in, WantedGradients wanted);

}  // namespace lockstep::kernels
