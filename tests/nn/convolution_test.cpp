// A convolution and its norm in one, against LibTorch's in double precision.

#include "nn/convolution.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>

#include <string>
#include <vector>

namespace convolution_test {

using lockstep::kernels::NormActivation;
using lockstep::nn::convolve_and_norm;
using torch::Tensor;

struct Shape {
  std::int64_t rows, inputs, outputs, side;
  std::int64_t kernel = 1, stride = 1, groups = 1;
};

/// A layer and a batch for it. Means are far from 0, and about a third of the outputs is cut by
/// ReLU6.
struct Layer {
  explicit Layer(const Shape& shape)
      : convolution(torch::nn::Conv2dOptions(shape.inputs, shape.outputs, shape.kernel)
                        .stride(shape.stride)
                        .padding(shape.kernel / 2)
                        .groups(shape.groups)
                        .bias(false)),
        norm(torch::nn::BatchNorm2dOptions(shape.outputs).eps(1e-3).momentum(0.3)) {
    torch::manual_seed(3);
    x = (torch::randn({shape.rows, shape.inputs, shape.side, shape.side}) + 2).requires_grad_();
    const torch::NoGradGuard no_gradients;
    torch::nn::init::normal_(convolution->weight);
    torch::nn::init::uniform_(norm->weight, -3, 3);
    torch::nn::init::uniform_(norm->bias, 0, 4);
  }

  Layer in_double() const {
    Layer other = *this;
    const auto copy = [](const auto& module) {
      auto result = std::dynamic_pointer_cast<std::decay_t<decltype(*module)>>(module->clone());
      result->to(torch::kDouble);
      return result;
    };
    other.convolution = torch::nn::Conv2d(copy(convolution));
    other.norm = torch::nn::BatchNorm2d(copy(norm));
    other.x = x.detach().to(torch::kDouble).requires_grad_();
    return other;
  }

  /// LibTorch's operations one by one.
  Tensor plain(NormActivation activation) {
    const Tensor y = norm(convolution(x));
    return activation == NormActivation::relu6 ? torch::relu6(y) : y;
  }

  /// Gradients along `direction`, and what the norm remembers.
  std::vector<Tensor> results(const Tensor& y, const Tensor& direction) const {
    y.backward(direction.to(y.scalar_type()));
    return {y,
            x.grad(),
            convolution->weight.grad(),
            norm->weight.grad(),
            norm->bias.grad(),
            norm->running_mean,
            norm->running_var,
            norm->num_batches_tracked};
  }

  torch::nn::Conv2d convolution;
  torch::nn::BatchNorm2d norm;
  Tensor x;
};

void expect_plain(const Shape& shape, NormActivation activation) {
  SCOPED_TRACE(testing::Message() << shape.rows << " images of " << shape.inputs << " x "
                                  << shape.side << ", to " << shape.outputs << ", kernel "
                                  << shape.kernel << ", stride " << shape.stride);
  Layer layer(shape), other = layer.in_double();
  const Tensor y = convolve_and_norm(layer.x, layer.convolution, layer.norm, activation);
  const Tensor direction = torch::randn_like(y);
  const auto found = layer.results(y, direction);
  const auto expected = other.results(other.plain(activation), direction);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), expected[i].sizes()) << i;
    const Tensor want = expected[i].to(torch::kDouble);
    const double error = (found[i].to(torch::kDouble) - want).norm().item<double>();
    // Single precision has about seven digits; sums of some thousand numbers lose one or two.
    EXPECT_LE(error, 2e-5 * want.norm().item<double>()) << "result " << i;
  }
  EXPECT_TRUE(y.is_contiguous(torch::MemoryFormat::ChannelsLast));
}

void expect_plain(const Shape& shape) {
  expect_plain(shape, NormActivation::relu6);
  expect_plain(shape, NormActivation::none);
}

/// On one thread, where a test does not say otherwise.
class ConvolveAndNorm : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  void TearDown() override { at::set_num_threads(threads_); }

 private:
  int threads_ = at::get_num_threads();
};

TEST_F(ConvolveAndNorm, EqualsLibTorchsOperationsOneByOneForKernelsOfOnePixel) {
  expect_plain({.rows = 2, .inputs = 2, .outputs = 1, .side = 2});
  expect_plain({.rows = 1, .inputs = 3, .outputs = 5, .side = 7});
  expect_plain({.rows = 3, .inputs = 16, .outputs = 96, .side = 20});
  expect_plain({.rows = 8, .inputs = 48, .outputs = 24, .side = 18});
  expect_plain({.rows = 2, .inputs = 33, .outputs = 65, .side = 19});
  expect_plain({.rows = 4, .inputs = 320, .outputs = 160, .side = 5});
}

TEST_F(ConvolveAndNorm, EqualsLibTorchsOperationsOneByOneForOtherKernels) {
  expect_plain({.rows = 2, .inputs = 24, .outputs = 24, .side = 19, .kernel = 3, .groups = 24});
  expect_plain(
      {.rows = 2, .inputs = 32, .outputs = 32, .side = 19, .kernel = 3, .stride = 2, .groups = 32});
  expect_plain({.rows = 3, .inputs = 3, .outputs = 32, .side = 30, .kernel = 3, .stride = 2});
  expect_plain({.rows = 2, .inputs = 8, .outputs = 12, .side = 9, .kernel = 1, .stride = 2});
  expect_plain({.rows = 2, .inputs = 8, .outputs = 8, .side = 9, .kernel = 1, .groups = 2});
}

void expect_same_on_any_threads(const Shape& shape) {
  std::vector<std::vector<Tensor>> found;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    Layer layer(shape);
    const Tensor y =
        convolve_and_norm(layer.x, layer.convolution, layer.norm, NormActivation::relu6);
    found.push_back(layer.results(y, torch::ones_like(y)));
  }
  for (std::size_t i = 0; i < found[0].size(); ++i) {
    EXPECT_TRUE(torch::equal(found[0][i], found[1][i])) << i;
    EXPECT_TRUE(torch::equal(found[0][i], found[2][i])) << i;
  }
}

TEST_F(ConvolveAndNorm, GivesTheSameBitsOnAnyNumberOfThreads) {
  expect_same_on_any_threads({.rows = 8, .inputs = 24, .outputs = 48, .side = 24});
  expect_same_on_any_threads({.rows = 1, .inputs = 24, .outputs = 900, .side = 10});
}

TEST_F(ConvolveAndNorm, TakesGradientsInAnyMemoryOrder) {
  const Shape shape{.rows = 2, .inputs = 6, .outputs = 8, .side = 9};
  std::vector<std::vector<Tensor>> found;
  for (const auto format : {torch::MemoryFormat::Contiguous, torch::MemoryFormat::ChannelsLast}) {
    Layer layer(shape);
    const Tensor y =
        convolve_and_norm(layer.x, layer.convolution, layer.norm, NormActivation::relu6);
    const Tensor direction = torch::arange(y.numel()).view(y.sizes()).to(torch::kFloat).sin();
    found.push_back(layer.results(y, direction.contiguous(format)));
  }
  for (std::size_t i = 0; i < found[0].size(); ++i)
    EXPECT_TRUE(torch::equal(found[0][i], found[1][i])) << i;
}

TEST_F(ConvolveAndNorm, LeavesFrozenTensorsWithoutGradients) {
  for (const Shape& shape : {Shape{.rows = 2, .inputs = 8, .outputs = 8, .side = 9},
                             Shape{.rows = 2, .inputs = 8, .outputs = 8, .side = 9, .kernel = 3}}) {
    Layer layer(shape), whole(shape);
    layer.x.set_requires_grad(false);
    layer.convolution->weight.set_requires_grad(false);
    const auto run = [](Layer& of) {
      convolve_and_norm(of.x, of.convolution, of.norm, NormActivation::relu6).sum().backward();
    };
    run(layer);
    run(whole);
    EXPECT_FALSE(layer.x.grad().defined());
    EXPECT_FALSE(layer.convolution->weight.grad().defined());
    EXPECT_TRUE(torch::equal(layer.norm->weight.grad(), whole.norm->weight.grad()));
  }
}

TEST_F(ConvolveAndNorm, UsesRunningStatisticsInEvaluation) {
  Layer layer({.rows = 2, .inputs = 8, .outputs = 8, .side = 9});
  convolve_and_norm(layer.x, layer.convolution, layer.norm, NormActivation::relu6);
  layer.norm->eval();
  const Tensor mean = layer.norm->running_mean.clone();
  const Tensor expected = layer.plain(NormActivation::relu6);
  const auto found = [&] {
    return convolve_and_norm(layer.x, layer.convolution, layer.norm, NormActivation::relu6);
  };
  EXPECT_TRUE(torch::equal(found(), expected));
  const torch::NoGradGuard no_gradients;
  EXPECT_TRUE(torch::equal(found(), expected));
  EXPECT_TRUE(torch::equal(layer.norm->running_mean, mean));
}

TEST_F(ConvolveAndNorm, DoesWithoutTheStatisticsOfOneNumber) {
  for (const std::int64_t stride : {1, 2}) {
    Layer layer(
        {.rows = 1, .inputs = 8, .outputs = 8, .side = stride, .kernel = 1, .stride = stride});
    const Tensor y =
        convolve_and_norm(layer.x, layer.convolution, layer.norm, NormActivation::none);
    layer.norm->eval();
    EXPECT_TRUE(torch::equal(y, layer.plain(NormActivation::none)));
    EXPECT_EQ(layer.norm->running_mean.abs().max().item<float>(), 0);
  }
}

TEST_F(ConvolveAndNorm, HasNoSecondDerivative) {
  Layer layer({.rows = 2, .inputs = 8, .outputs = 8, .side = 9});
  const Tensor y = convolve_and_norm(layer.x, layer.convolution, layer.norm, NormActivation::relu6);
  try {
    torch::autograd::grad({y.sum()}, {layer.x}, {}, true, true);
    FAIL() << "gave a second derivative";
  } catch (const lockstep::ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("create_graph"), std::string::npos);
  }
}

TEST_F(ConvolveAndNorm, LeavesDoublePrecisionToLibTorch) {
  Layer layer = Layer({.rows = 2, .inputs = 8, .outputs = 8, .side = 9}).in_double();
  Layer other = layer.in_double();
  EXPECT_TRUE(
      torch::equal(convolve_and_norm(layer.x, layer.convolution, layer.norm, NormActivation::relu6),
                   other.plain(NormActivation::relu6)));
}

}  // namespace convolution_test
