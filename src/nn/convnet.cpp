#include <lockstep/error.h>
#include <lockstep/nn/convnet.h>

#include <string>

namespace lockstep::nn {
namespace {

namespace nn = torch::nn;

nn::Conv2d convolution(std::int64_t inputs, std::int64_t outputs) {
  return nn::Conv2d(nn::Conv2dOptions(inputs, outputs, 3).padding(1).bias(false));
}

void check_options(const ConvNetOptions& options) {
  const auto least = [](std::int64_t found, std::int64_t smallest, const char* what) {
    if (found < smallest)
      throw ConfigError("the convnet's " + std::string(what) + " is " + std::to_string(found) +
                        ": give at least " + std::to_string(smallest));
  };
  least(options.width, 1, "width");
  least(options.hidden, 1, "number of hidden units");
  least(options.image_size, 4, "image size");
  least(options.channels, 1, "number of channels");
  least(options.classes, 1, "number of classes");
  if (!(options.dropout >= 0 && options.dropout < 1))
    throw ConfigError("the convnet's dropout is " + std::to_string(options.dropout) +
                      ": give a probability from 0 to below 1");
}

}  // namespace

ConvNet::ConvNet(const ConvNetOptions& how) : options(how) {
  check_options(options);
  const std::int64_t width = options.width, side = options.image_size / 4;
  conv1 = register_module("conv1", convolution(options.channels, width));
  norm1 = register_module("norm1", nn::BatchNorm2d(width));
  conv2 = register_module("conv2", convolution(width, 2 * width));
  norm2 = register_module("norm2", nn::BatchNorm2d(2 * width));
  hidden = register_module("hidden", nn::Linear(2 * width * side * side, options.hidden));
  output = register_module("output", nn::Linear(options.hidden, options.classes));
}

torch::Tensor ConvNet::run_layer(std::size_t number, const torch::Tensor& x) {
  // Channels last is faster on a CPU with one thread; clone lays out a single channel so as well.
  // Pooling before the batch norm leaves it, and the relu, a quarter of the work.
  if (number == 0)
    return norm1(torch::max_pool2d(conv1(x.clone(torch::MemoryFormat::ChannelsLast)), 2)).relu_();
  if (number == 1) return norm2(torch::max_pool2d(conv2(x), 2)).relu_();
  return hidden(torch::dropout(x.flatten(1), options.dropout, is_training())).relu_();
}

torch::Tensor ConvNet::head(const torch::Tensor& x) {
  return output(torch::dropout(x, options.dropout, is_training()));
}

torch::Tensor ConvNet::forward(const torch::Tensor& images) {
  torch::Tensor x = images;
  for (std::size_t i = 0; i < chain_length(); ++i) x = run_layer(i, x);
  return head(x);
}

}  // namespace lockstep::nn
