#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "numpy_random.h"

/// Inputs and labels that all peers train on, drawn in their order.
namespace bench {

constexpr std::int64_t kLabelings = 8;  // of the same inputs

/// `integers(bound, size=shape)`, as int64.
torch::Tensor random_integers(NumpyRandom& random, std::int64_t bound, at::IntArrayRef shape);

/// Normal numbers of deviation 0.1, rows first. Of images the peers' shape is given: (rows, height,
/// width, channels). The result is (rows, channels, height, width), channels last in memory.
torch::Tensor random_inputs(NumpyRandom& random, at::IntArrayRef shape);

}  // namespace bench
