#pragma once

// How a batch is cut into shards: by rows, the first dimension of its tensors.
//
// `batch::part(batch, i, n)` is shard i of n of a tensor, a torch::data::Example, and of pairs,
// tuples, arrays and vectors of them. A vector of Examples is a list of rows (what a LibTorch
// loader gives without Stack): there the list itself is cut. A batch type of your own offers either
//
//   auto tensors() { return std::tie(first, second); }  // its tensors: each is cut by rows
//
// or, when it is not cut by rows,
//
//   Batch shard(int i, int n) const;        // shard i of n
//   std::int64_t rows() const;              // optional: needed when the loss is a mean over rows
//
// All tensors of a batch must have the same number of rows: a step checks that. An undefined tensor
// is allowed, and is undefined in every shard. Shards are views, not copies. Their sizes differ by
// at most one row; with fewer rows than shards some are empty.

#include <lockstep/detail/leaves.h>

namespace lockstep {

/// The types that `batch::part` can cut.
template <class Batch>
concept Shardable = detail::kShardable<Batch>;

template <class Batch>
concept OwnRows = requires(const Batch& batch) {
  { batch.rows() } -> std::convertible_to<std::int64_t>;
};

namespace batch {

/// The first row of shard `i` when `rows` are cut into `n`; shard i ends where shard i + 1 begins.
inline std::int64_t shard_begin(std::int64_t rows, int i, int n) { return rows * i / n; }

/// Shard `i` of `n`. Throws ConfigError for a tensor of 0 dimensions.
inline torch::Tensor part(const torch::Tensor& batch, int i, int n) {
  if (!batch.defined()) return batch;
  const std::int64_t rows = detail::rows_of(batch), begin = shard_begin(rows, i, n);
  return batch.narrow(0, begin, shard_begin(rows, i + 1, n) - begin);
}

template <Shardable Batch>
Batch part(const Batch& batch, int i, int n) {
  if constexpr (OwnBatch<Batch>) {
    return batch.shard(i, n);
  } else {
    Batch result = batch;
    detail::for_each_leaf(result, [&]<class Leaf>(Leaf& leaf) {
      if constexpr (detail::kIsList<Leaf>) {
        const std::int64_t rows = detail::rows_of(leaf);
        leaf = Leaf(leaf.begin() + shard_begin(rows, i, n),
                    leaf.begin() + shard_begin(rows, i + 1, n));
      } else {
        leaf = part(leaf, i, n);
      }
    });
    return result;
  }
}

/// All shards of a batch.
template <Shardable Batch>
std::vector<Batch> split(const Batch& batch, int n) {
  std::vector<Batch> shards;
  for (int i = 0; i < n; ++i) shards.push_back(part(batch, i, n));
  return shards;
}

inline constexpr std::int64_t kUnknownRows = -1;

/// Rows of a batch: those of its first tensor that is not undefined, 0 when there is none.
/// kUnknownRows when that is a type of your own without rows().
template <Shardable Batch>
std::int64_t rows(const Batch& batch) {
  if constexpr (OwnBatch<Batch>) {
    if constexpr (OwnRows<Batch>) return batch.rows();
    return kUnknownRows;
  } else {
    std::int64_t found = detail::kUndefined;
    Batch handles = batch;
    detail::for_each_leaf(handles, [&]<class Leaf>(const Leaf& leaf) {
      if (found != detail::kUndefined) return;
      if constexpr (OwnBatch<Leaf>)
        found = rows(leaf);
      else
        found = detail::rows_of(leaf);
    });
    return found == detail::kUndefined ? 0 : found;
  }
}

}  // namespace batch

}  // namespace lockstep
