#include "collective/tree.h"

#include <algorithm>

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

}  // namespace lockstep::collective
