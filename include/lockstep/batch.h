#pragma once

// How a batch is cut into shards: by rows, the first dimension of its tensors.
//
// `batch::part(batch, i, n)` is shard i of n of a tensor, a torch::data::Example, and of pairs,
// tuples, arrays, vectors, maps, optionals and torch::OrderedDicts of them. In these,
//
//   numbers, bools, enums and std::string  are the same in every shard, and so are
//   tensors of 0 dimensions, and undefined ones;
//   whole(mask)       is the same in every shard: any tensors, or structs with tensors();
//   along(1, hidden)  has its rows in another dimension: an LSTM's state (layers, rows, width), as
//                     one tensor or as a pair or tuple of them. Along its layers it would be cut
//                     without an error if there are as many layers as rows;
//   list(pictures)    has one row an item: tensors of any size, numbers, texts, structs.
//
// A plain vector of tensors is several tensors, each of which is cut. A vector of Examples is a
// list (what a LibTorch loader gives without Stack). A batch type of your own offers either
//
//   auto tensors() { return std::tie(first, second); }  // its parts: each is cut as above
//
// or, when it is not cut by rows,
//
//   Batch shard(int i, int n) const;        // shard i of n
//   std::int64_t rows() const;              // optional: needed when the loss is a mean over rows
//
// All parts of a batch must have the same number of rows, and one part must have rows: a step
// checks that, and names the part. Shards are views, not copies. Their sizes differ by at most one
// row; with fewer rows than shards some are empty.

#include <lockstep/detail/cut.h>

#include <algorithm>

namespace lockstep {

/// The types that `batch::part` can cut.
template <class Batch>
concept Shardable = detail::kShardable<Batch>;

/// The same in every shard: shard.value.
template <class T>
Whole<T> whole(T value) {
  static_assert(detail::kKnown<T>,
                "whole(x): x holds a type that Lockstep cannot copy to a device: offer tensors(), "
                "see lockstep/batch.h.");
  return {std::move(value)};
}

/// Cut along `dim`, which may count from the end (-1 is the last): shard.value.
template <class T>
Along<T> along(int dim, T value) {
  static_assert(detail::kKind<T> == detail::kTensor,
                "along(dim, x): x must be a tensor, or made of tensors only: a pair, tuple, array, "
                "vector, map or optional of them.");
  return {dim, std::move(value)};
}

/// One row an item: shard.items.
template <class Item>
List<Item> list(std::vector<Item> items) {
  static_assert(detail::kKnown<Item>,
                "list(items): an item holds a type that Lockstep cannot copy to a device: offer "
                "tensors(), see lockstep/batch.h.");
  return {std::move(items)};
}

namespace batch {

/// Shard `i` of `n` of a batch. Where it begins and ends: batch::shard_begin, lockstep/share.h.
template <Shardable Batch>
Batch part(const Batch& batch, int i, int n) {
  return detail::cut_parts(batch, detail::ShardCut{i, n});
}

/// Some rows of a batch: not of types that cut themselves, which do not say where their rows are.
template <Shardable Batch>
requires((detail::kKind<Batch> & detail::kItself) == 0) Batch
    part(const Batch& batch, const RowRange& rows) {
  return detail::cut_parts(batch, detail::RowsCut{rows});
}

/// All shards of a batch.
template <Shardable Batch>
std::vector<Batch> split(const Batch& batch, int n) {
  std::vector<Batch> shards;
  for (int i = 0; i < n; ++i) shards.push_back(part(batch, i, n));
  return shards;
}

using detail::kUnknownRows;

/// Rows of a batch: those of its first part that has rows, 0 when there is none. kUnknownRows when
/// only types of your own without rows() could tell.
template <Shardable Batch>
std::int64_t rows(const Batch& batch) {
  std::int64_t found = detail::kNoRows;
  detail::for_each_leaf(batch, [&](const auto& leaf, const detail::Part& at) {
    if (found < 0) found = std::max(found, detail::rows_of(leaf, at));
  });
  return found == detail::kNoRows ? 0 : found;
}

}  // namespace batch

}  // namespace lockstep
