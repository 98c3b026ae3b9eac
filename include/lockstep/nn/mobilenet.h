#pragma once

// MobileNets (Howard et al. 2017, Sandler et al. 2018): networks of depthwise convolutions for
// images, as classifiers and as the backbones of detectors. Weights and activations are
// channels-last, which is faster on the CPU.
//
//   lockstep::Mirrored<lockstep::nn::MobileNetV2> towers(
//       how, lockstep::nn::MobileNetOptions{.classes = 10});

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

namespace lockstep::nn {

struct NormOptions {
  double epsilon = 1e-3;
  double momentum = 0.03;  ///< torch's: the part of a running statistic that each step replaces
};

struct MobileNetOptions {
  double width = 1;                                       ///< factor of every layer's channels
  std::int64_t classes = 1000;                            ///< 0: no classifier, a backbone alone
  NormOptions norm = {.epsilon = 1e-5, .momentum = 0.1};  ///< torchvision's
  double dropout = 0.2;                                   ///< before the classifier
};

/// A convolution without bias, batch norm and ReLU6: children "0" and "1", as torchvision names
/// them. Padding is the same on all sides, as torch's and unlike TensorFlow's; it keeps the size,
/// halved and rounded up with stride 2. In training, a norm that is given one value a channel uses
/// its running statistics: one value has no spread.
struct ConvNorm : torch::nn::Module {
  struct Shape {
    std::int64_t inputs, outputs;
    int kernel = 1;
    int stride = 1;
    bool depthwise = false;
  };
  ConvNorm(const Shape& shape, const NormOptions& norm);
  torch::Tensor forward(const torch::Tensor& x);

  torch::nn::Conv2d convolution = nullptr;
  torch::nn::BatchNorm2d norm = nullptr;
};

/// What a detector takes from a backbone.
struct BackboneMaps {
  torch::Tensor fine;    ///< at a sixteenth of the image's size
  torch::Tensor coarse;  ///< at a thirty-second

  auto tensors() { return std::tie(fine, coarse); }
};

/// What the MobileNets have in common. Float images [rows, 3, height, width] -> logits [rows,
/// classes]. Convolutions start as He's initialisation says. Throws ConfigError for options that
/// make no network.
struct MobileNet : torch::nn::Module {
  /// Throws std::logic_error when there is no classifier.
  torch::Tensor forward(const torch::Tensor& images);
  virtual BackboneMaps maps(const torch::Tensor& images) = 0;

  const MobileNetOptions options;
  std::int64_t fine_channels = 0, coarse_channels = 0;  ///< of maps()

 protected:
  explicit MobileNet(const MobileNetOptions& options);
  /// Registers the classifier, if there is to be one, as "classifier".
  void add_classifier();

 private:
  torch::nn::Sequential classifier_ = nullptr;
};

/// MobileNet v1: 13 pairs of a depthwise and a 1x1 convolution. Layers are "features.0" (the first
/// convolution), then "features.N.0" (depthwise) and "features.N.1" (1x1); the classifier is
/// "classifier.1".
struct MobileNetV1 : MobileNet {
  explicit MobileNetV1(const MobileNetOptions& options = {});
  BackboneMaps maps(const torch::Tensor& images) override;  ///< after layers 11 and 13

  std::vector<std::shared_ptr<ConvNorm>> layers;  ///< in order: one, then two a pair
};

struct InvertedResidual;  // a block of MobileNet v2

/// MobileNet v2, with torchvision's names and shapes, so that its weights fit.
struct MobileNetV2 : MobileNet {
  explicit MobileNetV2(const MobileNetOptions& options = {});
  /// Inside features.14, after its expansion, and after features.18.
  BackboneMaps maps(const torch::Tensor& images) override;

  std::shared_ptr<ConvNorm> first, last;                  ///< "features.0", "features.18"
  std::vector<std::shared_ptr<InvertedResidual>> blocks;  ///< "features.1" to "features.17"
};

}  // namespace lockstep::nn
