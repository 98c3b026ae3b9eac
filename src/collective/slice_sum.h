#pragma once

// The sum of a slice over all shards, in memory that this process can read, whoever wrote it there.

#include <cstddef>
#include <functional>
#include <vector>

#include "collective/collective.h"
#include "collective/kernels.h"
#include "collective/tree.h"

namespace lockstep::collective {

/// Where element `element` of the arena, in `seat`, is in what `shard` brings, and those after it;
/// null stands for zero or absent.
using SourceOf = std::function<const std::byte*(std::size_t shard, const arena::Seat& seat,
                                                std::int64_t element)>;

/// What a run of elements of `gradient`, a parameter's, begins with: a SourceOf for one shard.
const std::byte* source_in(const torch::Tensor& gradient, const arena::Seat& seat,
                           std::int64_t element);

/// Reads each source once. Keeps its scratch memory from call to call.
class SliceSum {
 public:
  /// Sums in the order of `merges`, divides, and fills in `slice`.
  void reduce(std::size_t shards, const std::vector<Merge>& merges, const SourceOf& source,
              double divisor, GradientSlice& slice);

  /// Only sums, what is left in shard `root`: into `out`, for the elements of `range`. Zero where
  /// there is nothing.
  void partial(std::size_t shards, const std::vector<Merge>& merges, const SourceOf& source,
               std::size_t root, const arena::Layout& layout, arena::Slice range, std::byte* out);

 private:
  /// Calls finish(element, n, sum) for runs of at most a chunk, `sum` null where there is nothing.
  template <class Finish>
  void for_each_chunk(std::size_t shards, const std::vector<Merge>& merges, const SourceOf& source,
                      std::size_t root, const arena::Layout& layout, arena::Slice range,
                      const Finish& finish);

  std::vector<std::byte> scratch_;
  std::vector<Lanes> squares_;  // of each block of the slice at work
};

}  // namespace lockstep::collective
