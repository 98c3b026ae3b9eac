#pragma once

// The collective of towers that share one memory: the CPU devices of one process. What does not
// depend on that, the sum of a slice, is in slice_sum.h.

#include <vector>

#include "collective/collective.h"
#include "collective/slice_sum.h"

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
  struct PerTower {
    std::span<const ShardSum> sums;
    SliceSum sum;
  };

  const std::size_t shards_;
  std::vector<PerTower> by_tower_;
};

}  // namespace lockstep::collective
