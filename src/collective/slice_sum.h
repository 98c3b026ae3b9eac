#pragma once

// The sum of a slice over all shards, in memory that this process can read, whoever wrote it there.

#include <cstddef>
#include <functional>
#include <vector>

#include "collective/collective.h"
#include "collective/kernels.h"
#include "collective/tree.h"

namespace lockstep::collective {

/// Where the elements of `seat` begin in what `shard` brings; null stands for zero or absent.
using SourceOf = std::function<const std::byte*(std::size_t shard, const arena::Seat& seat)>;

/// Reads each source once. Keeps its scratch memory from call to call.
class SliceSum {
 public:
  /// Sums in the order of `merges`, divides, and fills in `slice`.
  void reduce(std::size_t shards, const std::vector<Merge>& merges, const SourceOf& source,
              double divisor, GradientSlice& slice);

 private:
  std::vector<std::byte> scratch_;
  std::vector<Lanes> squares_;  // of each block of the slice at work
};

}  // namespace lockstep::collective
