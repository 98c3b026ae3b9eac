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

/// Sums `n` <= kChunk elements in the order of `merges`. Overwrites `from`.
void sum_chunk(c10::ScalarType dtype, Sources& from, const std::vector<Merge>& merges,
               std::int64_t n, std::byte* scratch) {
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
}

}  // namespace

const std::byte* source_in(const torch::Tensor& gradient, const arena::Seat& seat,
                           std::int64_t element) {
  if (!gradient.defined()) return nullptr;
  return static_cast<const std::byte*>(gradient.const_data_ptr()) +
         (element - seat.offset) * static_cast<std::int64_t>(gradient.element_size());
}

template <class Finish>
void SliceSum::for_each_chunk(std::size_t shards, const std::vector<Merge>& merges,
                              const SourceOf& source, std::size_t root, const arena::Layout& layout,
                              arena::Slice range, const Finish& finish) {
  const auto width = static_cast<std::int64_t>(c10::elementSize(layout.dtype));
  scratch_.resize(shards * kChunk * kWidestElement);
  Sources sources(shards), at(shards);
  for (auto seat = layout.seat_after(range.begin);
       seat != layout.seats.end() && seat->offset < range.end; ++seat) {
    const std::int64_t begin = std::max(seat->offset, range.begin);
    const std::int64_t end = std::min(seat->offset + seat->numel, range.end);
    for (std::size_t shard = 0; shard < shards; ++shard)
      sources[shard] = source(shard, *seat, begin);
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t n = std::min(kChunk - i % kChunk, end - i);  // never across a block
      for (std::size_t shard = 0; shard < shards; ++shard)
        at[shard] = sources[shard] ? sources[shard] + (i - begin) * width : nullptr;
      sum_chunk(layout.dtype, at, merges, n, scratch_.data());
      finish(i, n, at[root]);
      i += n;
    }
  }
}

void SliceSum::reduce(std::size_t shards, const std::vector<Merge>& merges, const SourceOf& source,
                      double divisor, GradientSlice& slice) {
  const c10::ScalarType dtype = slice.layout->dtype;
  const auto width = static_cast<std::int64_t>(c10::elementSize(dtype));
  auto* out = static_cast<std::byte*>(slice.gradient.mutable_data_ptr());
  squares_.assign(slice.squares.size(), {});
  for_each_chunk(shards, merges, source, 0, *slice.layout, slice.range,
                 [&](std::int64_t element, std::int64_t n, const std::byte* sum) {
                   const std::int64_t local = element - slice.range.begin;
                   std::byte* into = out + local * width;
                   if (sum)
                     divide(dtype, into, sum, divisor, n,
                            squares_[static_cast<std::size_t>(local / arena::kBlock)]);
                   else
                     std::memset(into, 0, static_cast<std::size_t>(n * width));
                 });
  for (std::size_t block = 0; block < slice.squares.size(); ++block)
    slice.squares[block] = total(squares_[block]);
}

void SliceSum::partial(std::size_t shards, const std::vector<Merge>& merges, const SourceOf& source,
                       std::size_t root, const arena::Layout& layout, arena::Slice range,
                       std::byte* out) {
  const auto width = static_cast<std::int64_t>(c10::elementSize(layout.dtype));
  for_each_chunk(shards, merges, source, root, layout, range,
                 [&](std::int64_t element, std::int64_t n, const std::byte* sum) {
                   std::byte* into = out + (element - range.begin) * width;
                   if (sum)
                     std::memcpy(into, sum, static_cast<std::size_t>(n * width));
                   else
                     std::memset(into, 0, static_cast<std::size_t>(n * width));
                 });
}

}  // namespace lockstep::collective
