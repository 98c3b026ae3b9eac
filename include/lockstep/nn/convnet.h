#pragma once

// A small convolutional network for small images: Fashion-MNIST in minutes on a CPU.

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>

namespace lockstep::nn {

struct ConvNetOptions {
  std::int64_t width = 16;       ///< filters of the first convolution; the second has twice as many
  std::int64_t hidden = 128;     ///< units before the output
  double dropout = 0.25;         ///< before the hidden units and before the output
  std::int64_t image_size = 28;  ///< height and width in pixels; at least 4
  std::int64_t channels = 1;
  std::int64_t classes = 10;
};

/// Float images [rows, channels, size, size] -> logits [rows, classes]. Throws ConfigError for
/// options that make no network.
struct ConvNet : torch::nn::Module {
  explicit ConvNet(const ConvNetOptions& options = {});

  torch::Tensor forward(const torch::Tensor& images);

  /// forward() as a chain: two layers of convolutions, the hidden units; then the head.
  static constexpr std::size_t chain_length() { return 3; }
  torch::Tensor run_layer(std::size_t layer, const torch::Tensor& x);
  torch::Tensor head(const torch::Tensor& x);

  const ConvNetOptions options;
  torch::nn::Conv2d conv1 = nullptr, conv2 = nullptr;
  torch::nn::BatchNorm2d norm1 = nullptr, norm2 = nullptr;
  torch::nn::Linear hidden = nullptr, output = nullptr;
};

}  // namespace lockstep::nn
