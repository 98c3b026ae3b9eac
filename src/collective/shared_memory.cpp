#include "collective/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collective/kernels.h"

namespace lockstep::collective {
namespace {

/// Elements summed at a time: the partial sums of a few shards stay in the first-level cache.
constexpr std::int64_t kChunk = 1024;
constexpr std::size_t kWidestElement = 8;  // bytes

/// The sources of one run of elements, by shard: null stands for zero or absent.
using Sources = std::vector<const std::byte*>;

/// Sums `n` <= kChunk elements in the order of `merges` and divides; adds up the squares.
/// Overwrites `from`.
void sum_chunk(c10::ScalarType dtype, Sources& from, const std::vector<Merge>& merges,
               double divisor, std::byte* out, std::int64_t n, std::byte* scratch, Lanes& squares) {
  for (const Merge& merge : merges) {
    const std::byte*& into = from[static_cast<std::size_t>(merge.into)];
    const std::byte* other = from[static_cast<std::size_t>(merge.from)];
    if (!other) continue;
    if (!into) {
      into = other;
      continue;
    }
    std::byte* room = scratch + static_cast<std::size_t>(merge.into * kChunk) * kWidestElement;
    add(dtype, room, into, other, n);
    into = room;
  }
  if (from[0])
    divide(dtype, out, from[0], divisor, n, squares);
  else
    std::memset(out, 0, static_cast<std::size_t>(n) * c10::elementSize(dtype));
}

}  // namespace

SharedMemory::SharedMemory(std::unique_ptr<Meeting> meeting, int shards)
    : Collective(std::move(meeting)), shards_(shards), posts_(static_cast<std::size_t>(towers())) {}

std::vector<char> SharedMemory::reduce(int tower, std::span<const ShardSum> mine, double divisor,
                                       std::span<GradientSlice> slices) {
  Post& post = posts_[static_cast<std::size_t>(tower)];
  post.sums = mine;
  std::vector<char> reached = meet_with(tower, mine);
  std::vector<const ShardSum*> by_shard(static_cast<std::size_t>(shards_));
  std::vector<bool> present(by_shard.size());
  for (const Post& other : posts_)
    for (const ShardSum& sum : other.sums) {
      by_shard[static_cast<std::size_t>(sum.first)] = &sum;
      present[static_cast<std::size_t>(sum.first)] = true;
    }
  const std::vector<Merge> merges = merges_left(present);
  post.scratch.resize(by_shard.size() * kChunk * kWidestElement);
  for (GradientSlice& slice : slices) reduce_slice(post, by_shard, merges, divisor, slice);
  return reached;
}

void SharedMemory::reduce_slice(Post& post, const std::vector<const ShardSum*>& by_shard,
                                const std::vector<Merge>& merges, double divisor,
                                GradientSlice& slice) {
  const arena::Layout& layout = *slice.layout;
  const auto width = static_cast<std::int64_t>(c10::elementSize(layout.dtype));
  auto* out = static_cast<std::byte*>(slice.gradient.mutable_data_ptr());
  post.squares.assign(slice.squares.size(), {});
  Sources sources(by_shard.size()), at(by_shard.size());
  for (auto seat = layout.seat_after(slice.range.begin);
       seat != layout.seats.end() && seat->offset < slice.range.end; ++seat) {
    for (std::size_t shard = 0; shard < by_shard.size(); ++shard) {
      const bool there = by_shard[shard] && by_shard[shard]->gradients[seat->entry].defined();
      sources[shard] = there ? static_cast<const std::byte*>(
                                   by_shard[shard]->gradients[seat->entry].const_data_ptr())
                             : nullptr;
    }
    const std::int64_t end = std::min(seat->offset + seat->numel, slice.range.end);
    for (std::int64_t i = std::max(seat->offset, slice.range.begin); i < end;) {
      const std::int64_t n = std::min(kChunk - i % kChunk, end - i);  // never across a block
      for (std::size_t shard = 0; shard < at.size(); ++shard)
        at[shard] = sources[shard] ? sources[shard] + (i - seat->offset) * width : nullptr;
      const std::int64_t local = i - slice.range.begin;
      sum_chunk(layout.dtype, at, merges, divisor, out + local * width, n, post.scratch.data(),
                post.squares[static_cast<std::size_t>(local / arena::kBlock)]);
      i += n;
    }
  }
  for (std::size_t block = 0; block < slice.squares.size(); ++block)
    slice.squares[block] = total(post.squares[block]);
}

}  // namespace lockstep::collective
