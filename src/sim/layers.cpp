#include "device/scope.h"
#include "kernels/model_products.h"
#include "sim/fallback.h"
#include "sim/generator.h"
#include "sim/kernels.h"

#include <ATen/ATen.h>

namespace lockstep::sim {
namespace {

using torch::jit::pop;
using torch::jit::push;
using torch::jit::Stack;

/// convolution_overrideable: what the CPU computes for a convolution.
void convolution(const c10::OperatorHandle&, Stack* stack) {
  const auto groups = pop(*stack).toInt();
  const auto output_padding = pop(*stack).toIntVector();
  const bool transposed = pop(*stack).toBool();
  const auto dilation = pop(*stack).toIntVector();
  const auto padding = pop(*stack).toIntVector();
  const auto stride = pop(*stack).toIntVector();
  const auto bias = pop(*stack).toOptional<at::Tensor>();
  const auto weight = pop(*stack).toTensor();
  const auto input = pop(*stack).toTensor();
  push(*stack, at::convolution(input, weight, bias, stride, padding, dilation, transposed,
                               output_padding, groups));
}

void convolution_backward(const c10::OperatorHandle&, Stack* stack) {
  const auto mask = pop(*stack).toBoolList();
  const auto groups = pop(*stack).toInt();
  const auto output_padding = pop(*stack).toIntVector();
  const bool transposed = pop(*stack).toBool();
  const auto dilation = pop(*stack).toIntVector();
  const auto padding = pop(*stack).toIntVector();
  const auto stride = pop(*stack).toIntVector();
  const auto weight = pop(*stack).toTensor();
  const auto input = pop(*stack).toTensor();
  const auto gradient = pop(*stack).toTensor();
  const std::int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  auto [input_gradient, weight_gradient, bias_gradient] = at::convolution_backward(
      gradient, input, weight, at::IntArrayRef{channels}, stride, padding, dilation, transposed,
      output_padding, groups, {mask[0], mask[1], mask[2]});
  push(*stack, std::move(input_gradient), std::move(weight_gradient), std::move(bias_gradient));
}

/// Draws and multiplies as the CPU's dropout does, which is not its native_dropout: LibTorch sends
/// other devices here. As on CUDA it draws from the device's default generator: there is no
/// argument for another. The mask that is returned is the scaled noise.
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p,
                                                  std::optional<bool> train) {
  if (train && !*train) return {input.clone(), at::ones_like(input)};
  at::Tensor noise = at::empty_like(input);
  if (p >= 1)
    noise.zero_();
  else
    noise.bernoulli_(1 - p, default_generator(input.device().index())).div_(1 - p);
  return {input.mul(noise), noise};
}

at::Tensor native_dropout_backward(const at::Tensor& gradient, const at::Tensor& noise, double) {
  return gradient.mul(noise);
}

/// The CPU's gradient of an embedding. Towers make a sparse one dense; here it never is sparse.
void embedding_backward(const c10::OperatorHandle&, Stack* stack) {
  const bool sparse = pop(*stack).toBool();
  const bool by_frequency = pop(*stack).toBool();
  const auto padding = pop(*stack).toInt(), rows = pop(*stack).toInt();
  const auto indices = pop(*stack).toTensor();
  const auto gradient = pop(*stack).toTensor();
  const auto result =
      at::embedding_backward(gradient, indices, rows, padding, by_frequency, sparse);
  push(*stack, sparse ? result.to_dense() : result);
}

/// As on the CPU: a tower's model has its products from loops of our own.
void mm(const c10::OperatorHandle&, Stack* stack) {
  const auto right = pop(*stack).toTensor(), left = pop(*stack).toTensor();
  push(*stack, device::current_scope() ? kernels::model_mm(left, right) : at::mm(left, right));
}

void addmm(const c10::OperatorHandle&, Stack* stack) {
  const auto alpha = pop(*stack).toScalar(), beta = pop(*stack).toScalar();
  const auto right = pop(*stack).toTensor(), left = pop(*stack).toTensor();
  const auto bias = pop(*stack).toTensor();
  push(*stack, device::current_scope() ? kernels::model_addmm(bias, left, right, beta, alpha)
                                       : at::addmm(bias, left, right, beta, alpha));
}

}  // namespace

void register_layers(torch::Library& aten) {
  using torch::CppFunction;
  aten.impl("convolution_overrideable",
            CppFunction::makeFromBoxedFunction<&run_as<&convolution>>());
  aten.impl("convolution_backward_overrideable",
            CppFunction::makeFromBoxedFunction<&run_as<&convolution_backward>>());
  aten.impl("embedding_backward",
            CppFunction::makeFromBoxedFunction<&run_as<&embedding_backward>>());
  aten.impl("mm", CppFunction::makeFromBoxedFunction<&run_as<&mm>>());
  aten.impl("addmm", CppFunction::makeFromBoxedFunction<&run_as<&addmm>>());
  aten.impl("native_dropout", TORCH_FN(native_dropout));
  aten.impl("native_dropout_backward", TORCH_FN(native_dropout_backward));
}

}  // namespace lockstep::sim
