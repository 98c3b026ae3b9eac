#pragma once

// The loss contract. A loss is a sum and its weight. There is one division, by the weight of the
// whole global batch, after the sum over all shards. So uneven shards, empty shards, masked tokens
// and matched anchors are exact: there is never a mean of means.

#include <torch/torch.h>

#include <cstdint>

namespace lockstep {

/// What a loss function returns when its loss is not a mean over rows: `sum` is a tensor with one
/// element that backward() starts from, `weight` is its divisor (real tokens, matched anchors).
struct Loss {
  torch::Tensor sum;
  double weight = 0;
};

}  // namespace lockstep
