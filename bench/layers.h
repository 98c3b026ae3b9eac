#pragma once

#include <lockstep/nn/recurrent.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "numpy_random.h"

/// Layers of the workloads, as modules for one device. Constructors leave kernels uninitialised,
/// since `fill` replaces them, and set all else as the peers do: biases zero, batch
/// norms at the identity.
namespace bench {

using torch::Tensor;

/// Draws the kernels that all peers start from into parameters, in place. To be called layer by
/// layer, in their order.
class InitialWeights {
 public:
  /// A kernel that the peers lay out as (..., inputs, outputs), into its transpose.
  void draw_kernel(const Tensor& kernel);
  /// An embedding, one row per word.
  void draw_table(const Tensor& table);

 private:
  NumpyRandom random_{1};
};

/// Linear layer.
struct Dense : torch::nn::Module {
  Dense(std::int64_t inputs, std::int64_t outputs, bool has_bias = true);
  Tensor forward(const Tensor& x) const { return torch::linear(x, kernel, bias); }

  Tensor kernel;  // (outputs, inputs)
  Tensor bias;    // undefined if the layer has none
};

/// LSTMs on top of each other, time first.
struct StackedLstm : torch::nn::Module {
  using States = std::vector<lockstep::nn::CellState>;  // layer by layer

  StackedLstm(std::int64_t inputs, std::int64_t size, std::int64_t layer_count);
  /// The states after every step; those before the first are zero without `start`.
  States forward(const Tensor& x, const States& start = {}) const;
  void fill(InitialWeights& initial);

  std::vector<std::shared_ptr<lockstep::nn::Recurrent>> layers;
};

struct ConvShape {
  std::int64_t inputs, outputs, size;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
};

/// Convolution without bias, channels last, and batch norm.
struct ConvNorm : torch::nn::Module {
  explicit ConvNorm(const ConvShape& conv_shape);
  Tensor forward(const Tensor& x);

  ConvShape shape;
  Tensor kernel;  // (outputs, inputs / groups, size, size)
  torch::nn::BatchNorm2d norm;
};

/// Basic block of a ResNet.
struct Residual : torch::nn::Module {
  Residual(std::int64_t inputs, std::int64_t width, std::int64_t stride);
  Tensor forward(const Tensor& x);
  void fill(InitialWeights& initial);

  std::shared_ptr<ConvNorm> conv0, conv1;
  std::shared_ptr<ConvNorm> skip;  // null if the input is added as it is
};

}  // namespace bench
