#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace lockstep::kernels::projection {

/// What projection_cross_entropy() is given, checked, with the rows of a chunk chosen.
struct Inputs {
  torch::Tensor features, weight, bias, labels;
  double smoothing = 0;
  std::int64_t chunk_rows = 1;
};

/// Which gradients are wanted.
struct Wanted {
  bool features = false, weight = false, bias = false;
  bool any() const { return features || weight || bias; }
};

/// The loss, and the gradients that were wanted.
struct Result {
  torch::Tensor loss, features, weight, bias;
};

/// In single precision on a CPU.
Result compute_floats(const Inputs& in, Wanted wanted);

}  // namespace lockstep::kernels::projection
