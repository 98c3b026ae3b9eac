#pragma once

// Residual networks that classify images (He et al. 2015, 2016). A recipe is a plain value:
//
//   lockstep::Mirrored<lockstep::nn::ResNet> towers(how, lockstep::nn::resnet20(10));

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace lockstep::nn {

enum class Stem {
  small,  ///< a 3x3 convolution at full size: images of about 32x32
  large,  ///< a 7x7 convolution and a pooling, a quarter of the size: images of about 224x224
};

/// How a shortcut gets the shape of the branch that it is added to.
enum class Shortcut {
  padded,     ///< every second pixel, new channels zero: no parameters (the paper's option A)
  projected,  ///< a 1x1 convolution and batch norm (option B)
};

struct ResNetOptions {
  std::vector<std::int64_t> blocks = {2, 2, 2, 2};  ///< a stage; each halves size, doubles width
  bool bottleneck = false;  ///< blocks of 1x1, 3x3, 1x1 with four times as many outputs; else 3x3s
  Stem stem = Stem::large;
  Shortcut shortcut = Shortcut::projected;
  std::int64_t width = 64;  ///< filters of the first stage
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  bool zero_last_gain = false;  ///< blocks start as the identity: helps large batches
};

/// For CIFAR: 16, 32, 64 filters, padded shortcuts; 269,722 parameters for 10 classes.
ResNetOptions resnet20(std::int64_t classes, std::int64_t channels = 3);

/// For 224x224. Names and shapes are torchvision's, so that its weights fit.
ResNetOptions resnet18(std::int64_t classes);
ResNetOptions resnet50(std::int64_t classes);  ///< with the stride in the 3x3 ("v1.5")

/// Float images [rows, channels, height, width] -> logits [rows, classes]. Convolutions start as
/// He's initialisation says. Throws ConfigError for options that make no network.
struct ResNet : torch::nn::Module {
  explicit ResNet(const ResNetOptions& options);

  torch::Tensor forward(const torch::Tensor& images);

  /// forward() as a chain: layer 0 is the stem, the others are the blocks; then the head.
  std::size_t chain_length() const;
  torch::Tensor run_layer(std::size_t layer, const torch::Tensor& x);
  torch::Tensor head(const torch::Tensor& x);

  const ResNetOptions options;
  torch::nn::Conv2d conv1 = nullptr;
  torch::nn::BatchNorm2d bn1 = nullptr;
  std::vector<torch::nn::Sequential> layers;  ///< "layer1", "layer2", ...
  torch::nn::Linear fc = nullptr;
};

}  // namespace lockstep::nn
