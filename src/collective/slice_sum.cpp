#include "collective/slice_sum.h"

#include <algorithm>
#include <cstring>

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

void SliceSum::reduce(std::size_t shards, const std::vector<Merge>& merges, const SourceOf& source,
                      double divisor, GradientSlice& slice) {
  const arena::Layout& layout = *slice.layout;
  const auto width = static_cast<std::int64_t>(c10::elementSize(layout.dtype));
  auto* out = static_cast<std::byte*>(slice.gradient.mutable_data_ptr());
  scratch_.resize(shards * kChunk * kWidestElement);
  squares_.assign(slice.squares.size(), {});
  Sources sources(shards), at(shards);
  for (auto seat = layout.seat_after(slice.range.begin);
       seat != layout.seats.end() && seat->offset < slice.range.end; ++seat) {
    for (std::size_t shard = 0; shard < shards; ++shard) sources[shard] = source(shard, *seat);
    const std::int64_t end = std::min(seat->offset + seat->numel, slice.range.end);
    for (std::int64_t i = std::max(seat->offset, slice.range.begin); i < end;) {
      const std::int64_t n = std::min(kChunk - i % kChunk, end - i);  // never across a block
      for (std::size_t shard = 0; shard < shards; ++shard)
        at[shard] = sources[shard] ? sources[shard] + (i - seat->offset) * width : nullptr;
      const std::int64_t local = i - slice.range.begin;
      sum_chunk(layout.dtype, at, merges, divisor, out + local * width, n, scratch_.data(),
                squares_[static_cast<std::size_t>(local / arena::kBlock)]);
      i += n;
    }
  }
  for (std::size_t block = 0; block < slice.squares.size(); ++block)
    slice.squares[block] = total(squares_[block]);
}

}  // namespace lockstep::collective
