#pragma once

// Loss functions and metrics that write to their shard are refused. See "What a loss may write" in
// docs/using.md.

#include <lockstep/detail/leaves.h>

namespace lockstep::detail {

/// Grows with each write in place, through any view; 0 when the tensor does not count them.
std::uint32_t version_of(const torch::Tensor& tensor);
[[noreturn]] void refuse_written(const char* who, const Part& part);

/// What compute() returns. Throws ConfigError when it wrote to a tensor of `shard`; `who` computes.
template <class Batch, class Compute>
auto unwritten(const Batch& shard, const char* who, const Compute& compute) {
  c10::SmallVector<std::uint32_t, 8> before;
  for_each_tensor(shard, [&](const torch::Tensor& tensor, const Part&) {
    before.push_back(version_of(tensor));
  });
  auto result = compute();
  std::size_t number = 0;
  for_each_tensor(shard, [&](const torch::Tensor& tensor, const Part& part) {
    if (version_of(tensor) != before[number++]) refuse_written(who, part);
  });
  return result;
}

}  // namespace lockstep::detail
