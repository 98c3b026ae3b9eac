#include "collective/tree.h"

#include <algorithm>
#include <iterator>

namespace lockstep::collective {

std::vector<Merge> merges_after(int shard, int first, int shards) {
  std::vector<Merge> merges;
  const int end = shard + 1;
  for (int stride = 1; stride < shards; stride *= 2) {
    const int into = shard / (2 * stride) * (2 * stride);
    const bool complete = std::min(into + 2 * stride, shards) == end;
    if (complete && into >= first && into + stride < end) merges.push_back({into, into + stride});
  }
  return merges;
}

std::vector<Merge> merges_left(std::vector<bool> present) {
  std::vector<Merge> merges;
  const int shards = static_cast<int>(present.size());
  for (int stride = 1; stride < shards; stride *= 2)
    for (int into = 0; into + stride < shards; into += 2 * stride)
      if (present[static_cast<std::size_t>(into + stride)]) {
        merges.push_back({into, into + stride});
        present[static_cast<std::size_t>(into)] = true;
      }
  return merges;
}

std::vector<Merge> merges_inside(int first, int end, int shards) {
  std::vector<Merge> merges;
  for (int shard = first; shard < end; ++shard)
    std::ranges::copy(merges_after(shard, first, shards), std::back_inserter(merges));
  return merges;
}

std::vector<int> roots_of(int first, int end, int shards) {
  std::vector<bool> left(static_cast<std::size_t>(shards));
  for (int shard = first; shard < end; ++shard) left[static_cast<std::size_t>(shard)] = true;
  for (const Merge& merge : merges_inside(first, end, shards))
    left[static_cast<std::size_t>(merge.from)] = false;
  std::vector<int> roots;
  for (int shard = first; shard < end; ++shard)
    if (left[static_cast<std::size_t>(shard)]) roots.push_back(shard);
  return roots;
}

}  // namespace lockstep::collective
