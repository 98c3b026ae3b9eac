#include "layers.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>

namespace bench {
namespace {

constexpr double kNormEpsilon = 1e-5, kNormMomentum = 0.1;

/// Width of the uniform distribution around zero that has the variance 1 / inputs.
float uniform_width(std::int64_t inputs) {
  return static_cast<float>(2 * std::sqrt(3.0 / static_cast<double>(inputs)));
}

}  // namespace

void InitialWeights::draw_kernel(const Tensor& kernel) {
  const bool image = kernel.dim() == 4;
  lockstep::check(kernel.is_contiguous(image ? torch::MemoryFormat::ChannelsLast
                                             : torch::MemoryFormat::Contiguous),
                  "a kernel is filled in the order of its memory");
  // A block of input rows at a time, so that a column of the block fills a cache line of the
  // kernel. The padding keeps a column's elements in different sets of the cache.
  constexpr std::int64_t kBlock = 16, kPadding = 16;
  const std::int64_t outputs = kernel.size(0), inputs = kernel.numel() / outputs;
  const std::int64_t row_stride = outputs + kPadding;
  const float width = uniform_width(inputs);
  std::vector<float> block(static_cast<std::size_t>(kBlock * row_stride));
  float* target = kernel.data_ptr<float>();
  for (std::int64_t first = 0; first < inputs; first += kBlock) {
    const std::int64_t rows = std::min(kBlock, inputs - first);
    for (std::int64_t row = 0; row < rows; ++row) {
      random_.random({block.data() + row * row_stride, static_cast<std::size_t>(outputs)});
    }
    for (std::int64_t output = 0; output < outputs; ++output) {
      const float* column = block.data() + output;
      for (std::int64_t row = 0; row < rows; ++row) {
        target[output * inputs + first + row] = (column[row * row_stride] - 0.5F) * width;
      }
    }
  }
}

void InitialWeights::draw_table(const Tensor& table) {
  lockstep::check(table.is_contiguous(), "a table is filled in the order of its memory");
  const auto row_size = static_cast<std::size_t>(table.size(1));
  const float width = uniform_width(table.size(1));
  for (std::int64_t index = 0; index < table.size(0); ++index) {
    const std::span<float> row(table.data_ptr<float>() + index * table.size(1), row_size);
    random_.random(row);
    for (float& value : row) value = (value - 0.5F) * width;
  }
}

Dense::Dense(std::int64_t inputs, std::int64_t outputs, bool has_bias)
    : kernel(register_parameter("kernel", torch::empty({outputs, inputs}))) {
  if (has_bias) bias = register_parameter("bias", torch::zeros(outputs));
}

StackedLstm::StackedLstm(std::int64_t inputs, std::int64_t size, std::int64_t layer_count) {
  for (std::int64_t layer = 0; layer < layer_count; ++layer) {
    layers.push_back(
        register_module("layer" + std::to_string(layer),
                        std::make_shared<lockstep::nn::Recurrent>(
                            lockstep::nn::Cell::lstm, layer == 0 ? inputs : size, size)));
  }
}

StackedLstm::States StackedLstm::forward(const Tensor& x, const States& start) const {
  States states;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const Tensor& inputs = layer == 0 ? x : states.back().front();
    states.push_back(
        layers[layer]->forward(inputs, start.empty() ? lockstep::nn::CellState() : start[layer]));
  }
  return states;
}

void StackedLstm::fill(InitialWeights& initial) {
  const torch::NoGradGuard no_gradients;
  for (const auto& layer : layers) {
    initial.draw_kernel(layer->weight_hidden);
    initial.draw_kernel(layer->weight_input);
    layer->bias.zero_();
  }
}

ConvNorm::ConvNorm(const ConvShape& conv_shape)
    : shape(conv_shape),
      kernel(register_parameter("kernel", torch::empty({shape.outputs, shape.inputs / shape.groups,
                                                        shape.size, shape.size},
                                                       torch::MemoryFormat::ChannelsLast))),
      norm(register_module("norm",
                           torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(shape.outputs)
                                                      .eps(kNormEpsilon)
                                                      .momentum(kNormMomentum)))) {}

Tensor ConvNorm::forward(const Tensor& x) {
  return norm(torch::conv2d(x, kernel, {}, shape.stride, shape.size / 2, 1, shape.groups));
}

Residual::Residual(std::int64_t inputs, std::int64_t width, std::int64_t stride)
    : conv0(register_module("conv0",
                            std::make_shared<ConvNorm>(ConvShape{inputs, width, 3, stride}))),
      conv1(register_module("conv1", std::make_shared<ConvNorm>(ConvShape{width, width, 3}))) {
  if (inputs == width) return;
  skip = register_module("skip", std::make_shared<ConvNorm>(ConvShape{inputs, width, 1, stride}));
}

Tensor Residual::forward(const Tensor& x) {
  Tensor y = conv1->forward(conv0->forward(x).relu_());
  return (y + (skip ? skip->forward(x) : x)).relu_();
}

void Residual::fill(InitialWeights& initial) {
  initial.draw_kernel(conv0->kernel);
  initial.draw_kernel(conv1->kernel);
  if (skip) initial.draw_kernel(skip->kernel);
}

}  // namespace bench
