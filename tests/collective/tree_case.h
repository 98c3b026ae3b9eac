#pragma once

// Batches of gradients by shard, and what their sum over the tree of shards must be.

#include <torch/torch.h>

#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "arena/arena.h"
#include "collective/collective.h"
#include "collective/tree.h"

namespace tree_case {

using namespace lockstep;
using namespace lockstep::collective;

using Gradients = std::vector<torch::Tensor>;  // of one shard, by parameter; empty: absent shard

inline void run_towers(int towers, const std::function<void(int)>& job) {
  std::vector<std::jthread> threads;
  for (int tower = 0; tower < towers; ++tower) threads.emplace_back([&job, tower] { job(tower); });
}

/// Adds `from` to `into`, in place: what is undefined or absent stands for zero.
inline void merge(Gradients& into, Gradients& from) {
  if (into.empty()) {
    into = std::move(from);
    return;
  }
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i].defined()) into[i] = into[i].defined() ? into[i] + from[i] : from[i];
  from.clear();
}

/// One batch: parameters, a gradient for each shard, and what their sum must be.
struct Case {
  Case(torch::Dtype dtype, const std::vector<std::int64_t>& numels, int shard_count, bool holes)
      : shards(static_cast<std::size_t>(shard_count)), divisor(3.7 * shard_count) {
    auto random = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(shard_count));
    std::vector<arena::Entry> entries;
    for (const std::int64_t numel : numels) entries.push_back({"p", torch::zeros({numel}, dtype)});
    layout = arena::layouts(entries)[0];
    for (std::size_t shard = 0; shard < shards.size(); ++shard) {
      if (holes && shard % 4 == 2) continue;  // absent
      for (std::size_t i = 0; i < numels.size(); ++i) {
        const bool undefined = holes && (shard + 2 * i) % 3 == 0;
        shards[shard].push_back(undefined ? torch::Tensor()
                                          : torch::randn({numels[i]}, random).to(dtype));
      }
    }
  }

  /// The arena of the mean gradient, by the definition of the tree and ATen's additions.
  torch::Tensor expected() const {
    std::vector<Gradients> sums = shards;
    for (std::size_t stride = 1; stride < sums.size(); stride *= 2)
      for (std::size_t into = 0; into + stride < sums.size(); into += 2 * stride)
        merge(sums[into], sums[into + stride]);
    torch::Tensor flat = arena::allocate(layout, torch::kCPU);
    for (const arena::Seat& seat : layout.seats)
      if (!sums[0].empty() && sums[0][seat.entry].defined())
        arena::view(flat, seat).copy_(sums[0][seat.entry] / divisor);
    return flat;
  }

  arena::Layout layout;
  std::vector<Gradients> shards;
  double divisor;
};

/// The sums that `tower` brings: its shards one by one, or as far merged as it can.
inline std::vector<ShardSum> sums_of(const Case& batch, int tower, int towers, bool merged) {
  const int shards = static_cast<int>(batch.shards.size());
  const int first = shards * tower / towers, end = shards * (tower + 1) / towers;
  std::vector<Gradients> sums(batch.shards.size());
  for (int shard = first; shard < end; ++shard) {
    sums[static_cast<std::size_t>(shard)] = batch.shards[static_cast<std::size_t>(shard)];
    if (!merged) continue;
    for (const auto& [into, from] : merges_after(shard, first, shards))
      merge(sums[static_cast<std::size_t>(into)], sums[static_cast<std::size_t>(from)]);
  }
  std::vector<ShardSum> result;
  for (int shard = first; shard < end; ++shard)
    if (!sums[static_cast<std::size_t>(shard)].empty())
      result.push_back({shard, sums[static_cast<std::size_t>(shard)]});
  return result;
}

inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace tree_case
