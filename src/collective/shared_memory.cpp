#include "collective/shared_memory.h"

#include <utility>

namespace lockstep::collective {

SharedMemory::SharedMemory(std::unique_ptr<Meeting> meeting, int shards)
    : Collective(std::move(meeting)),
      shards_(static_cast<std::size_t>(shards)),
      by_tower_(static_cast<std::size_t>(towers())) {}

std::vector<char> SharedMemory::reduce(int tower, std::span<const ShardSum> mine, double divisor,
                                       std::span<GradientSlice> slices) {
  PerTower& own = by_tower_[static_cast<std::size_t>(tower)];
  own.sums = mine;
  std::vector<char> reached = meet_with(tower, mine);
  std::vector<const ShardSum*> by_shard(shards_);
  std::vector<bool> present(shards_);
  for (const PerTower& other : by_tower_)
    for (const ShardSum& sum : other.sums) {
      by_shard[static_cast<std::size_t>(sum.first)] = &sum;
      present[static_cast<std::size_t>(sum.first)] = true;
    }
  const std::vector<Merge> merges = merges_left(present);
  const auto source = [&](std::size_t shard, const arena::Seat& seat, std::int64_t element) {
    return by_shard[shard] ? source_in(by_shard[shard]->gradients[seat.entry], seat, element)
                           : nullptr;
  };
  for (GradientSlice& slice : slices) own.sum.reduce(shards_, merges, source, divisor, slice);
  return reached;
}

}  // namespace lockstep::collective
