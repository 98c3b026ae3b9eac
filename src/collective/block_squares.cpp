#include "collective/block_squares.h"

#include <torch/library.h>

#include <algorithm>

#include "arena/arena.h"
#include "collective/kernels.h"

namespace lockstep::collective {
namespace {

using arena::kBlock;

torch::Tensor on_cpu(const torch::Tensor& flat) {
  const std::int64_t blocks = (flat.numel() + kBlock - 1) / kBlock;
  torch::Tensor result = torch::empty({blocks}, flat.options().dtype(torch::kFloat64));
  const auto* in = static_cast<const std::byte*>(flat.const_data_ptr());
  const auto width = static_cast<std::int64_t>(flat.element_size());
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t begin = block * kBlock;
    result.mutable_data_ptr<double>()[block] =
        squares(flat.scalar_type(), in + begin * width, std::min(kBlock, flat.numel() - begin));
  }
  return result;
}

/// The operator, registered once for the process: so that a simulated device finds the CPU's
/// kernel.
c10::OperatorHandle block_squares_operator() {
  static const auto* libraries = [] {
    auto* result = new std::vector<torch::Library>;
    result->emplace_back(torch::Library::FRAGMENT, "lockstep", std::nullopt, __FILE__, __LINE__);
    result->back().def("block_squares(Tensor flat) -> Tensor");
    result->emplace_back(torch::Library::IMPL, "lockstep", c10::DispatchKey::CPU, __FILE__,
                         __LINE__);
    result->back().impl("block_squares", &on_cpu);
    result->emplace_back(torch::Library::IMPL, "lockstep", c10::DispatchKey::CUDA, __FILE__,
                         __LINE__);
    result->back().impl("block_squares", &block_squares_by_halves);
    return result;
  }();
  (void)libraries;
  return c10::Dispatcher::singleton().findSchemaOrThrow("lockstep::block_squares", "");
}

}  // namespace

torch::Tensor block_squares_by_halves(const torch::Tensor& flat) {
  const std::int64_t blocks = (flat.numel() + kBlock - 1) / kBlock;
  torch::Tensor sums = torch::zeros({blocks * kBlock}, flat.options().dtype(torch::kFloat64));
  sums.narrow(0, 0, flat.numel()).copy_(flat).square_();
  sums = sums.view({blocks, kBlock});
  for (std::int64_t half = kBlock / 2; half > 0; half /= 2)
    sums = sums.narrow(1, 0, half) + sums.narrow(1, half, half);
  return sums.view({blocks});
}

torch::Tensor block_squares(const torch::Tensor& flat) {
  static const auto op = block_squares_operator().typed<torch::Tensor(const torch::Tensor&)>();
  return op.call(flat);
}

}  // namespace lockstep::collective
