#pragma once

// A convolution and the batch norm after it as one operation. In training in single precision on a
// CPU it takes fewer passes over memory than LibTorch's, which is most of what such layers cost:
// see "Note: fused norms" in docs/notes.md.

#include <lockstep/kernels/batch_norm.h>
#include <torch/torch.h>

namespace lockstep::nn {

/// activation(norm(convolution(x))), channels last. Updates the norm's running statistics in
/// training, in place. The way it is computed is chosen by shapes, dtypes, kind of device and mode
/// alone. Of the fast way there is no second derivative: create_graph throws ConfigError.
torch::Tensor convolve_and_norm(const torch::Tensor& x, torch::nn::Conv2d& convolution,
                                torch::nn::BatchNorm2d& norm, kernels::NormActivation activation);

}  // namespace lockstep::nn
