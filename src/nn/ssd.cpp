#include <lockstep/error.h>
#include <lockstep/nn/ssd.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <numbers>

namespace lockstep::nn {
namespace {

namespace nn = torch::nn;

constexpr double kBackboneSpread = 0.09, kSpread = 0.03;  // deviations of kernels at the start
constexpr std::int64_t kLeastSize = 64;
constexpr std::int64_t kExtraChannels[] = {512, 256, 256, 128};

void check_options(const SsdOptions& options) {
  if (options.size < kLeastSize)
    throw ConfigError("an SSD's image size is " + std::to_string(options.size) +
                      ": give at least " + std::to_string(kLeastSize));
  if (options.classes < 1)
    throw ConfigError("an SSD has " + std::to_string(options.classes) +
                      " classes: give at least 1, without background");
  if (!std::isfinite(options.class_bias)) throw ConfigError("an SSD's class bias is not finite");
}

/// In place: draws kernels from a normal distribution without what is beyond two deviations.
void start_kernels(nn::Module& module, double deviation) {
  const torch::NoGradGuard no_gradients;
  const double within = std::erf(std::numbers::sqrt2);  // the probability of two deviations
  for (torch::Tensor& parameter : module.parameters())
    if (parameter.dim() == 4)
      parameter.uniform_(-within, within).erfinv_().mul_(deviation * std::numbers::sqrt2);
}

std::shared_ptr<MobileNet> backbone_of(const SsdOptions& options) {
  const MobileNetOptions how{.width = options.width, .classes = 0, .norm = options.norm};
  if (options.backbone == Backbone::mobilenet_v1) return std::make_shared<MobileNetV1>(how);
  return std::make_shared<MobileNetV2>(how);
}

/// As slim: at least 16.
std::int64_t extra_channels(const SsdOptions& options, std::int64_t channels) {
  return std::max<std::int64_t>(
      static_cast<std::int64_t>(static_cast<double>(channels) * options.width), 16);
}

/// A 1x1 convolution, then one with stride 2, which makes the next map.
nn::Sequential extra_layers(const SsdOptions& options, std::int64_t inputs, std::int64_t outputs) {
  nn::Sequential layers;
  const auto add = [&](const ConvNorm::Shape& shape) {
    layers->push_back(std::make_shared<ConvNorm>(shape, options.norm));
  };
  const std::int64_t between = extra_channels(options, outputs / 2);
  const std::int64_t last = extra_channels(options, outputs);
  add({inputs, between});
  if (options.lite) {
    add({.inputs = between, .outputs = between, .kernel = 3, .stride = 2, .depthwise = true});
    add({between, last});
  } else {
    add({.inputs = between, .outputs = last, .kernel = 3, .stride = 2});
  }
  return layers;
}

}  // namespace

struct SsdHead : nn::Module {
  SsdHead(const SsdOptions& options, std::int64_t channels, std::int64_t anchors_in_cell)
      : columns(options.classes + 1) {
    boxes = register_module("boxes", output_of(options, channels, anchors_in_cell * 4, 0));
    classes = register_module(
        "classes", output_of(options, channels, anchors_in_cell * columns, options.class_bias));
  }

  Ssd::Output forward(const torch::Tensor& map) {
    return {rows_of(boxes->forward(map), 4), rows_of(classes->forward(map), columns)};
  }

  static nn::Sequential output_of(const SsdOptions& options, std::int64_t channels,
                                  std::int64_t outputs, double bias) {
    nn::Sequential layers;
    if (options.lite)
      layers->push_back(std::make_shared<ConvNorm>(
          ConvNorm::Shape{.inputs = channels, .outputs = channels, .kernel = 3, .depthwise = true},
          options.norm));
    nn::Conv2d last(nn::Conv2dOptions(channels, outputs, 1));
    nn::init::constant_(last->bias, bias);
    layers->push_back(last);
    return layers;
  }

  /// [rows, anchors in a cell * size, height, width] -> [rows, anchors, size]: a view where
  /// channels are last.
  static torch::Tensor rows_of(const torch::Tensor& map, std::int64_t size) {
    return map.permute({0, 2, 3, 1}).reshape({map.size(0), -1, size});
  }

  const std::int64_t columns;
  nn::Sequential boxes = nullptr, classes = nullptr;
};

vision::AnchorOptions anchor_options(const SsdOptions& options) {
  check_options(options);
  vision::AnchorOptions result;
  result.grids.clear();
  int cells = static_cast<int>(options.size);
  constexpr int kHalvings = 5;  // in the backbone
  for (int i = 1; i <= kHalvings + static_cast<int>(std::size(kExtraChannels)); ++i) {
    cells = (cells + 1) / 2;
    if (i >= kHalvings - 1) result.grids.push_back(cells);
  }
  return result;
}

Ssd::Ssd(const SsdOptions& how) : options(how), anchors(vision::make_anchors(anchor_options(how))) {
  backbone = register_module("backbone", backbone_of(options));
  std::vector<std::int64_t> channels = {backbone->fine_channels, backbone->coarse_channels};
  nn::ModuleList extra_list, head_list;
  for (const std::int64_t outputs : kExtraChannels) {
    extras.push_back(extra_layers(options, channels.back(), outputs));
    extra_list->push_back(extras.back());
    channels.push_back(extra_channels(options, outputs));
  }
  const vision::AnchorOptions layout = anchor_options(options);
  for (std::size_t map = 0; map < channels.size(); ++map) {
    heads.push_back(
        std::make_shared<SsdHead>(options, channels[map], vision::anchors_per_cell(layout, map)));
    head_list->push_back(heads.back());
  }
  start_kernels(*backbone, kBackboneSpread);
  start_kernels(*register_module("extras", extra_list), kSpread);
  start_kernels(*register_module("heads", head_list), kSpread);
}

BackboneMaps Ssd::maps(const torch::Tensor& images) {
  if (images.dim() != 4 || images.size(1) != 3 || images.size(2) != options.size ||
      images.size(3) != options.size)
    throw ConfigError("an SSD for images [rows, 3, " + std::to_string(options.size) + ", " +
                      std::to_string(options.size) + "] was given " + c10::str(images.sizes()));
  return backbone->maps(images);
}

Ssd::Output Ssd::outputs(const BackboneMaps& maps) {
  std::vector<torch::Tensor> codes, logits;
  const auto add = [&](const torch::Tensor& map) {
    const Output output = heads[codes.size()]->forward(map);
    codes.push_back(output.codes);
    logits.push_back(output.logits);
  };
  add(maps.fine);
  torch::Tensor map = maps.coarse;
  add(map);
  for (nn::Sequential& layers : extras) add(map = layers->forward(map));
  return {torch::cat(codes, 1), torch::cat(logits, 1)};
}

Ssd::Output Ssd::forward(const torch::Tensor& images) { return outputs(maps(images)); }

std::vector<std::string> undecayed(const Ssd& model) {
  std::vector<std::string> patterns = {"*.bias", "extras.*.1.weight"};
  const auto add = [&](std::initializer_list<const char*> more) {
    patterns.insert(patterns.end(), more.begin(), more.end());
  };
  if (model.options.lite) add({"heads.*.0.1.weight"});
  if (model.options.backbone == Backbone::mobilenet_v1) {
    add({"backbone.*.1.weight"});
  } else {
    add({"backbone.*.0.1.weight", "backbone.*.conv.1.1.weight", "backbone.*.conv.3.weight",
         "backbone.features.1.conv.2.weight", "backbone.features.18.1.weight"});
    add({"backbone.features.1.conv.0.0.weight", "backbone.*.conv.1.0.weight"});  // depthwise
  }
  return patterns;
}

}  // namespace lockstep::nn
