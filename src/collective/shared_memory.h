#pragma once

// The collective of towers that share one memory: CPU devices.

#include <array>
#include <vector>

#include "collective/barrier.h"
#include "collective/collective.h"
#include "collective/tree.h"

namespace lockstep::collective {

/// Towers read each other's gradients where autograd put them: each byte is read once, by the tower
/// whose slice it is in. Parameters are one shared arena, so `gather` moves nothing.
class SharedMemory : public Collective {
 public:
  SharedMemory(int towers, int shards);

  void reduce(int tower, std::span<const ShardSum> mine, double divisor,
              std::span<GradientSlice> slices) override;
  void gather(int tower) override;
  double sum(int tower, std::span<const double> terms) override;
  void abort() noexcept override { barrier_.abort(); }
  bool aborted() const noexcept override { return barrier_.aborted(); }
  void reset() override;
  Seconds waited(int tower) const override;

 private:
  /// Touched by its tower's thread only, but for what it publishes before a barrier.
  struct Post {
    std::span<const ShardSum> sums;
    std::array<std::span<const double>, 2> terms;  // of even and odd calls of `sum`
    unsigned calls = 0;
    Seconds waited{};
    std::vector<std::byte> scratch;
  };

  void meet(int tower);
  void reduce_slice(Post& post, const std::vector<const ShardSum*>& by_shard,
                    const std::vector<Merge>& merges, double divisor, GradientSlice& slice);

  const int shards_;
  Barrier barrier_;
  std::vector<Post> posts_;
};

}  // namespace lockstep::collective
