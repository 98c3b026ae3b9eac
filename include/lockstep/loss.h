#pragma once

// The loss contract. A loss is a sum and its weight; the one division, by the weight of the whole
// global batch, comes after the sum over all shards. So uneven shards, empty shards, masked tokens
// and matched anchors are exact: never a mean of means.

#include <torch/torch.h>

#include <cstdint>

namespace lockstep {

/// What a loss function returns when a mean over rows is not what it has: `sum` is a scalar tensor
/// that backward() runs from, `weight` what it is to be divided by (real tokens, matched anchors).
struct Loss {
  torch::Tensor sum;
  double weight = 0;
};

}  // namespace lockstep
