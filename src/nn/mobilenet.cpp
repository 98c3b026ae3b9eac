#include <lockstep/error.h>
#include <lockstep/nn/mobilenet.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace lockstep::nn {
namespace {

namespace nn = torch::nn;

/// Batch norm that does without the batch's statistics where it has one value a channel.
torch::Tensor normed(nn::BatchNorm2d& norm, const torch::Tensor& x) {
  if (!norm->is_training() || x.numel() > x.size(1)) return norm(x);
  return torch::batch_norm(x, norm->weight, norm->bias, norm->running_mean, norm->running_var,
                           /*training=*/false, /*momentum=*/0, norm->options.eps(),
                           /*cudnn_enabled=*/true);
}

/// The convolution, by oneDNN on a CPU. With one thread and below 16 images LibTorch computes a 1x1
/// convolution by a matrix product that is slower in training, unless it has a dilation, which says
/// nothing about a single point.
torch::Tensor convolved(nn::Conv2d& convolution, const torch::Tensor& x) {
  const bool is_point = convolution->weight.size(-1) == 1;
  if (!is_point || x.is_cuda()) return convolution(x);
  const auto& stride = convolution->options.stride();
  return nn::functional::conv2d(x, convolution->weight,
                                nn::functional::Conv2dFuncOptions().stride(stride).dilation(2));
}

nn::BatchNorm2d norm_of(std::int64_t channels, const NormOptions& norm) {
  return nn::BatchNorm2d(
      nn::BatchNorm2dOptions(channels).eps(norm.epsilon).momentum(norm.momentum));
}

nn::Conv2d kernel_of(const ConvNorm::Shape& shape) {
  nn::Conv2d convolution(nn::Conv2dOptions(shape.inputs, shape.outputs, shape.kernel)
                             .stride(shape.stride)
                             .padding(shape.kernel / 2)
                             .groups(shape.depthwise ? shape.inputs : 1)
                             .bias(false));
  torch::Tensor& weight = convolution->weight;
  nn::init::kaiming_normal_(weight, 0, torch::kFanOut);
  weight.set_data(weight.detach().contiguous(torch::MemoryFormat::ChannelsLast));
  return convolution;
}

/// v1's channels: slim's min_depth is 16 in detectors.
std::int64_t scaled(std::int64_t channels, double width) {
  return std::max<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(channels) * width),
                                16);
}

/// v2's channels: a multiple of 8 that is not below nine tenths of what was asked.
std::int64_t rounded(std::int64_t channels, double width) {
  const double wanted = static_cast<double>(channels) * width;
  const auto nearest = std::max<std::int64_t>(static_cast<std::int64_t>(wanted + 4) / 8 * 8, 8);
  return static_cast<double>(nearest) < 0.9 * wanted ? nearest + 8 : nearest;
}

void check_options(const MobileNetOptions& options) {
  const auto refuse = [](const std::string& what, double found, const std::string& range) {
    throw ConfigError("a MobileNet's " + what + " is " + std::to_string(found) + ": give " + range);
  };
  if (!(options.width > 0 && options.width <= 16)) refuse("width", options.width, "0 to 16");
  if (options.classes < 0)
    refuse("number of classes", static_cast<double>(options.classes), "0 or more");
  if (!(options.dropout >= 0 && options.dropout < 1))
    refuse("dropout", options.dropout, "a probability from 0 to below 1");
  if (!(options.norm.epsilon > 0)) refuse("norm epsilon", options.norm.epsilon, "one above 0");
  if (!(options.norm.momentum >= 0 && options.norm.momentum <= 1))
    refuse("norm momentum", options.norm.momentum, "0 to 1");
}

}  // namespace

ConvNorm::ConvNorm(const Shape& shape, const NormOptions& how) {
  convolution = register_module("0", kernel_of(shape));
  norm = register_module("1", norm_of(shape.outputs, how));
}

torch::Tensor ConvNorm::forward(const torch::Tensor& x) {
  torch::Tensor y = normed(norm, convolved(convolution, x));
  return torch::relu6_(y);
}

MobileNet::MobileNet(const MobileNetOptions& how) : options(how) { check_options(options); }

void MobileNet::add_classifier() {
  if (options.classes == 0) return;
  nn::Linear linear(coarse_channels, options.classes);
  nn::init::normal_(linear->weight, 0, 0.01);
  nn::init::zeros_(linear->bias);
  classifier_ = register_module("classifier", nn::Sequential(nn::Dropout(options.dropout), linear));
}

torch::Tensor MobileNet::forward(const torch::Tensor& images) {
  check(!classifier_.is_empty(), "a MobileNet without classes has no logits");
  return classifier_->forward(maps(images).coarse.mean({2, 3}));
}

MobileNetV1::MobileNetV1(const MobileNetOptions& how) : MobileNet(how) {
  struct Pair {
    std::int64_t channels;
    int stride;
  };
  constexpr Pair kPairs[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                             {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
  std::int64_t channels = scaled(32, options.width);
  layers.push_back(std::make_shared<ConvNorm>(
      ConvNorm::Shape{.inputs = 3, .outputs = channels, .kernel = 3, .stride = 2}, options.norm));
  nn::ModuleList features(layers.front());
  for (const Pair& pair : kPairs) {
    const std::int64_t outputs = scaled(pair.channels, options.width);
    const auto depthwise = std::make_shared<ConvNorm>(
        ConvNorm::Shape{channels, channels, 3, pair.stride, true}, options.norm);
    const auto pointwise =
        std::make_shared<ConvNorm>(ConvNorm::Shape{channels, outputs}, options.norm);
    features->push_back(nn::ModuleList(depthwise, pointwise));
    layers.insert(layers.end(), {depthwise, pointwise});
    channels = outputs;
  }
  register_module("features", features);
  fine_channels = scaled(512, options.width);
  coarse_channels = channels;
  add_classifier();
}

BackboneMaps MobileNetV1::maps(const torch::Tensor& images) {
  constexpr std::size_t kFine = 1 + 2 * 11;  // layers up to the 11th pair
  BackboneMaps result;
  torch::Tensor x = images.contiguous(torch::MemoryFormat::ChannelsLast);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i == kFine) result.fine = x;
    x = layers[i]->forward(x);
  }
  result.coarse = x;
  return result;
}

/// A 1x1 convolution to more channels, a depthwise one, and a linear 1x1 one back to few.
struct InvertedResidual : nn::Module {
  struct Shape {
    std::int64_t inputs, outputs, expansion;
    int stride;
  };

  InvertedResidual(const Shape& shape, const NormOptions& how)
      : is_residual(shape.stride == 1 && shape.inputs == shape.outputs) {
    const std::int64_t hidden = shape.inputs * shape.expansion;
    nn::ModuleList conv;
    if (shape.expansion != 1) {
      expand = std::make_shared<ConvNorm>(ConvNorm::Shape{shape.inputs, hidden}, how);
      conv->push_back(expand);
    }
    depthwise =
        std::make_shared<ConvNorm>(ConvNorm::Shape{hidden, hidden, 3, shape.stride, true}, how);
    project = kernel_of({hidden, shape.outputs});
    norm = norm_of(shape.outputs, how);
    conv->push_back(depthwise);
    conv->push_back(project);
    conv->push_back(norm);
    register_module("conv", conv);
  }

  torch::Tensor expanded(const torch::Tensor& x) { return expand ? expand->forward(x) : x; }

  /// The output for `x`, of which `wide` is the expansion.
  torch::Tensor reduced(const torch::Tensor& wide, const torch::Tensor& x) {
    torch::Tensor y = normed(norm, convolved(project, depthwise->forward(wide)));
    return is_residual ? y.add_(x) : y;
  }

  torch::Tensor forward(const torch::Tensor& x) { return reduced(expanded(x), x); }

  const bool is_residual;
  std::shared_ptr<ConvNorm> expand, depthwise;  // expand may be null
  nn::Conv2d project = nullptr;
  nn::BatchNorm2d norm = nullptr;
};

MobileNetV2::MobileNetV2(const MobileNetOptions& how) : MobileNet(how) {
  struct Stage {
    std::int64_t expansion, channels;
    int blocks, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  std::int64_t channels = rounded(32, options.width);
  first = std::make_shared<ConvNorm>(
      ConvNorm::Shape{.inputs = 3, .outputs = channels, .kernel = 3, .stride = 2}, options.norm);
  nn::ModuleList features(first);
  for (const Stage& stage : kStages)
    for (int i = 0; i < stage.blocks; ++i) {
      const InvertedResidual::Shape shape{.inputs = channels,
                                          .outputs = rounded(stage.channels, options.width),
                                          .expansion = stage.expansion,
                                          .stride = i == 0 ? stage.stride : 1};
      blocks.push_back(std::make_shared<InvertedResidual>(shape, options.norm));
      features->push_back(blocks.back());
      channels = shape.outputs;
      if (stage.channels == 160 && i == 0) fine_channels = shape.inputs * shape.expansion;
    }
  coarse_channels = rounded(1280, std::max(options.width, 1.));
  last = std::make_shared<ConvNorm>(ConvNorm::Shape{channels, coarse_channels}, options.norm);
  features->push_back(last);
  register_module("features", features);
  add_classifier();
}

BackboneMaps MobileNetV2::maps(const torch::Tensor& images) {
  constexpr std::size_t kFine = 13;  // "features.14"
  BackboneMaps result;
  torch::Tensor x = first->forward(images.contiguous(torch::MemoryFormat::ChannelsLast));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const torch::Tensor wide = blocks[i]->expanded(x);
    if (i == kFine) result.fine = wide;
    x = blocks[i]->reduced(wide, x);
  }
  result.coarse = last->forward(x);
  return result;
}

}  // namespace lockstep::nn
