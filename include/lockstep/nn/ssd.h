#pragma once

// SSD (Liu et al. 2016) on a MobileNet: a detector that says of each of its anchors what is there,
// in one pass. Layers, anchors and losses are those of TensorFlow's Object Detection API; padding
// is torch's.
//
//   lockstep::Mirrored<lockstep::nn::Ssd> towers(how, lockstep::nn::SsdOptions{.classes = 2});

#include <lockstep/loss.h>
#include <lockstep/nn/mobilenet.h>
#include <lockstep/vision/anchors.h>
#include <lockstep/vision/image_file.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::nn {

enum class Backbone { mobilenet_v1, mobilenet_v2 };

/// The names of an Ssd's backbone begin with this; what follows is what a classifier's file has.
inline constexpr const char* kBackbone = "backbone.";

struct SsdOptions {
  Backbone backbone = Backbone::mobilenet_v2;
  double width = 1;          ///< factor of the backbone's channels, and of the extra layers'
  bool lite = false;         ///< SSDLite: depthwise convolutions in extra layers and heads
  std::int64_t size = 300;   ///< height and width of the images; at least 64
  std::int64_t classes = 2;  ///< without background
  NormOptions norm = {};
  double class_bias = 0;  ///< what class logits start at; -4.6 suits background_as_zeros
};

/// The anchors of a network, in the order of its outputs. Throws ConfigError for options that make
/// no network.
vision::AnchorOptions anchor_options(const SsdOptions& options);

struct SsdHead;  // the two outputs of one feature map

/// Float images [rows, 3, size, size] -> what it says of every anchor. Kernels start as a normal
/// distribution that is cut at two deviations. Throws ConfigError for options that make no network.
struct Ssd : torch::nn::Module {
  struct Output {
    torch::Tensor codes;   ///< [rows, anchors, 4]: see vision::BoxCode
    torch::Tensor logits;  ///< [rows, anchors, classes + 1], background first
  };

  explicit Ssd(const SsdOptions& options);
  Output forward(const torch::Tensor& images);

  /// The two halves of forward().
  BackboneMaps maps(const torch::Tensor& images);
  Output outputs(const BackboneMaps& maps);

  const SsdOptions options;
  const std::vector<vision::Corners> anchors;
  std::shared_ptr<MobileNet> backbone;          ///< "backbone"
  std::vector<torch::nn::Sequential> extras;    ///< "extras.0" to "extras.3"
  std::vector<std::shared_ptr<SsdHead>> heads;  ///< "heads.0" to "heads.5", from fine to coarse
};

/// Patterns of the parameters that published recipes do not decay: biases, norms and, with v2, the
/// backbone's depthwise kernels. Each matches at least one parameter.
std::vector<std::string> undecayed(const Ssd& model);

enum class SsdLossKind {
  mined,  ///< sigmoid cross entropy of the positives and of the hardest negatives
  focal,  ///< Lin et al. 2017: of all anchors, easy ones count little
};

struct SsdLossOptions {
  SsdLossKind kind = SsdLossKind::mined;
  vision::MiningOptions mining = {};
  double alpha = 0.75, gamma = 2;    ///< of the focal loss
  bool background_as_zeros = false;  ///< background is no class: all logits low
  double localization_weight = 1;
  double classification_weight = 1;
  bool per_coordinate = false;  ///< the localization loss divided by 4
};

/// The loss of a shard: a sum over its images, with the number of matched anchors as its weight, so
/// that it is exact over any shards; a batch without a match is divided by 1. `labels` [rows,
/// anchors] and `codes` [rows, anchors, 4] are Targets. Metrics: "classification", "localization"
/// (their shares of the loss, by matched anchor), "positives", "negatives" (by image, as counted in
/// the loss).
Loss ssd_loss(const Ssd::Output& output, const std::vector<vision::Corners>& anchors,
              const torch::Tensor& labels, const torch::Tensor& codes,
              const SsdLossOptions& options = {});

/// Detections of each row, in pixels of pictures of these sizes.
std::vector<std::vector<vision::Detection>> detect(const Ssd::Output& output,
                                                   const std::vector<vision::Corners>& anchors,
                                                   const std::vector<vision::ImageSize>& sizes,
                                                   const vision::DetectionOptions& options = {});

}  // namespace lockstep::nn
