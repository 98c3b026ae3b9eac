#pragma once

// The output of a model with a large vocabulary and its cross entropy in one operation, which never
// holds the logits of all rows.

#include <torch/torch.h>

#include <cstdint>

namespace lockstep::nn {

struct ProjectionLossOptions {
  double label_smoothing = 0;
  std::int64_t chunk_rows = 0;  ///< whose logits are there at a time; 0: a good number
};

/// The sum over rows of the cross entropy between softmax(features weight^T + bias) and `labels`,
/// as a scalar. features [rows, size], weight [vocabulary, size], bias [vocabulary] or undefined,
/// labels int64 [rows]. What backward() needs is computed with the loss, unless gradients are off;
/// there is no second derivative: a backward pass with create_graph throws ConfigError. Under
/// autocast to bfloat16 the products are made in it. Throws ConfigError for a label that is not in
/// the vocabulary (on a CPU; others check it themselves).
torch::Tensor projection_cross_entropy(const torch::Tensor& features, const torch::Tensor& weight,
                                       const torch::Tensor& bias, const torch::Tensor& labels,
                                       const ProjectionLossOptions& options = {});

/// The same with the sum in the softmax estimated, for training with vocabularies whose projection
/// takes most of a step: the label's term, and `samples` tokens drawn with replacement from a
/// log-uniform distribution over the vocabulary (whose tokens are to be ordered by frequency), each
/// divided by how often it is expected and left out if it is the label. The estimate of the sum is
/// unbiased, so loss and gradient approach the whole ones with the samples. Draws from torch's
/// random numbers.
torch::Tensor sampled_cross_entropy(const torch::Tensor& features, const torch::Tensor& weight,
                                    const torch::Tensor& bias, const torch::Tensor& labels,
                                    std::int64_t samples);

}  // namespace lockstep::nn
