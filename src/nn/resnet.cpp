#include <lockstep/error.h>
#include <lockstep/nn/resnet.h>

#include <string>

namespace lockstep::nn {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kExpansion = 4;  // outputs of a bottleneck, in widths

nn::Conv2d convolution(std::int64_t inputs, std::int64_t outputs, std::int64_t size,
                       std::int64_t stride) {
  nn::Conv2d conv(
      nn::Conv2dOptions(inputs, outputs, size).stride(stride).padding(size / 2).bias(false));
  nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
  return conv;
}

struct BlockShape {
  std::int64_t inputs, width, stride;
};

/// Two or three convolutions with batch norm, added to what came in.
class BlockImpl : public nn::Module {
 public:
  BlockImpl(const ResNetOptions& options, const BlockShape& shape)
      : stride_(shape.stride),
        outputs_(options.bottleneck ? kExpansion * shape.width : shape.width) {
    if (options.bottleneck) {
      add(shape.inputs, shape.width, 1, 1);
      add(shape.width, shape.width, 3, stride_);
      add(shape.width, outputs_, 1, 1);
    } else {
      add(shape.inputs, outputs_, 3, stride_);
      add(outputs_, outputs_, 3, 1);
    }
    if (options.zero_last_gain) nn::init::zeros_(norms_.back()->weight);
    const bool changes_shape = stride_ != 1 || shape.inputs != outputs_;
    if (changes_shape && options.shortcut == Shortcut::projected)
      projection_ = register_module("downsample",
                                    nn::Sequential(convolution(shape.inputs, outputs_, 1, stride_),
                                                   nn::BatchNorm2d(outputs_)));
  }

  torch::Tensor forward(const torch::Tensor& images) {
    torch::Tensor x = images;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      x = norms_[i](convs_[i](x));
      if (i + 1 < convs_.size()) x.relu_();
    }
    return x.add_(shortcut(images)).relu_();
  }

 private:
  void add(std::int64_t inputs, std::int64_t outputs, std::int64_t size, std::int64_t stride) {
    const std::string number = std::to_string(convs_.size() + 1);
    convs_.push_back(register_module("conv" + number, convolution(inputs, outputs, size, stride)));
    norms_.push_back(register_module("bn" + number, nn::BatchNorm2d(outputs)));
  }

  torch::Tensor shortcut(const torch::Tensor& images) {
    if (projection_) return projection_->forward(images);
    const std::int64_t more = outputs_ - images.size(1);
    if (stride_ == 1 && more == 0) return images;
    const auto every = torch::indexing::Slice(0, torch::indexing::None, stride_);
    return torch::constant_pad_nd(images.index({torch::indexing::Ellipsis, every, every}),
                                  {0, 0, 0, 0, 0, more});
  }

  std::int64_t stride_, outputs_;
  std::vector<nn::Conv2d> convs_;
  std::vector<nn::BatchNorm2d> norms_;
  nn::Sequential projection_ = nullptr;  // null: the shortcut has no parameters
};
TORCH_MODULE(Block);

void check_options(const ResNetOptions& options) {
  if (options.blocks.empty()) throw ConfigError("a ResNet needs at least one stage of blocks");
  for (const std::int64_t count : options.blocks)
    if (count < 1)
      throw ConfigError("a stage of a ResNet has " + std::to_string(count) +
                        " blocks: give each at least 1");
  if (options.width < 1 || options.channels < 1 || options.classes < 1)
    throw ConfigError("a ResNet of width " + std::to_string(options.width) + " from " +
                      std::to_string(options.channels) + " channels to " +
                      std::to_string(options.classes) +
                      " classes makes no network: give each at least 1");
}

}  // namespace

ResNetOptions resnet20(std::int64_t classes, std::int64_t channels) {
  return {.blocks = {3, 3, 3},
          .stem = Stem::small,
          .shortcut = Shortcut::padded,
          .width = 16,
          .channels = channels,
          .classes = classes};
}

ResNetOptions resnet18(std::int64_t classes) {
  return {.blocks = {2, 2, 2, 2}, .classes = classes};
}

ResNetOptions resnet50(std::int64_t classes) {
  return {.blocks = {3, 4, 6, 3}, .bottleneck = true, .classes = classes};
}

ResNet::ResNet(const ResNetOptions& how) : options(how) {
  check_options(options);
  const bool large = options.stem == Stem::large;
  conv1 = register_module(
      "conv1", convolution(options.channels, options.width, large ? 7 : 3, large ? 2 : 1));
  bn1 = register_module("bn1", nn::BatchNorm2d(options.width));
  std::int64_t inputs = options.width, width = options.width;
  for (const std::int64_t count : options.blocks) {
    nn::Sequential layer;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t stride = i == 0 && !layers.empty() ? 2 : 1;
      layer->push_back(Block(options, BlockShape{inputs, width, stride}));
      inputs = options.bottleneck ? kExpansion * width : width;
    }
    layers.push_back(register_module("layer" + std::to_string(layers.size() + 1), layer));
    width *= 2;
  }
  fc = register_module("fc", nn::Linear(inputs, options.classes));
}

std::size_t ResNet::chain_length() const {
  std::size_t blocks = 0;
  for (const nn::Sequential& layer : layers) blocks += layer->size();
  return 1 + blocks;
}

torch::Tensor ResNet::run_layer(std::size_t number, const torch::Tensor& x) {
  if (number == 0) {
    // Channels last is faster on a CPU with one thread; clone lays out a single channel so as well.
    const torch::Tensor y = bn1(conv1(x.clone(torch::MemoryFormat::ChannelsLast))).relu_();
    return options.stem == Stem::large ? torch::max_pool2d(y, 3, 2, 1) : y;
  }
  std::size_t block = number - 1, group = 0;
  while (block >= layers[group]->size()) block -= layers[group++]->size();
  const auto found = layers[group]->begin() + static_cast<std::ptrdiff_t>(block);
  return found->forward<torch::Tensor>(x);
}

torch::Tensor ResNet::head(const torch::Tensor& x) { return fc(x.mean({2, 3})); }

torch::Tensor ResNet::forward(const torch::Tensor& images) {
  torch::Tensor x = images;
  for (std::size_t i = 0; i < chain_length(); ++i) x = run_layer(i, x);
  return head(x);
}

}  // namespace lockstep::nn
