#pragma once

// The weights of a checkpoint in a plain model, to use it outside of a training.

#include <lockstep/checkpoint.h>
#include <torch/torch.h>

#include <string>

namespace lockstep::apps {

/// Whether to take averaged weights: `weights` is auto (if there are some), live or averaged.
/// Throws ConfigError when there are none and it says so.
bool takes_averages(const std::string& weights, const FoundCheckpoint& found);

/// Writes parameters and buffers into the model, in place. Throws ConfigError when the state lacks
/// one, or has another shape.
void load_weights(torch::nn::Module& model, const State& state, bool averaged);

}  // namespace lockstep::apps
