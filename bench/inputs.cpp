#include "inputs.h"

#include <cstddef>
#include <span>

namespace bench {
namespace {

template <class Number>
std::span<Number> values(const torch::Tensor& tensor) {
  return {tensor.data_ptr<Number>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

torch::Tensor random_integers(NumpyRandom& random, std::int64_t bound, at::IntArrayRef shape) {
  torch::Tensor result = torch::empty(shape, torch::kInt64);
  random.integers(static_cast<std::uint32_t>(bound), values<std::int64_t>(result));
  return result;
}

torch::Tensor random_inputs(NumpyRandom& random, at::IntArrayRef shape) {
  torch::Tensor inputs = torch::empty(shape);
  random.standard_normal(values<float>(inputs));
  inputs.mul_(0.1);
  return inputs.dim() == 4 ? inputs.permute({0, 3, 1, 2}) : inputs;
}

}  // namespace bench
