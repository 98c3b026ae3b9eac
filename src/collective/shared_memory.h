#pragma once

// The collective of towers that share one memory: the CPU devices of one process.

#include <vector>

#include "collective/collective.h"
#include "collective/kernels.h"
#include "collective/tree.h"

namespace lockstep::collective {

/// Towers read each other's gradients where autograd put them: each byte is read once, by the tower
/// whose slice it is in. Parameters are one shared arena, so `gather` moves nothing.
class SharedMemory : public Collective {
 public:
  SharedMemory(std::unique_ptr<Meeting> meeting, int shards);

  std::vector<char> reduce(int tower, std::span<const ShardSum> mine, double divisor,
                           std::span<GradientSlice> slices) override;
  void gather(int tower) override { meet(tower); }

 private:
  /// Touched by its tower's thread only, but for what it publishes before a barrier.
  struct Post {
    std::span<const ShardSum> sums;
    std::vector<std::byte> scratch;
    std::vector<Lanes> squares;  // of each block of the slice at work
  };

  void reduce_slice(Post& post, const std::vector<const ShardSum*>& by_shard,
                    const std::vector<Merge>& merges, double divisor, GradientSlice& slice);

  const int shards_;
  std::vector<Post> posts_;
};

}  // namespace lockstep::collective
