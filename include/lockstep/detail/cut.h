#pragma once

// How the parts of a batch are cut. The contract is in batch.h.

#include <lockstep/detail/leaves.h>
#include <lockstep/share.h>

namespace lockstep::detail {

/// Some rows of a tensor that has rows, a view. Throws ConfigError for a dimension that it does not
/// have.
torch::Tensor cut(const torch::Tensor& leaf, const Part& part, const RowRange& rows);

/// Shard i of n, of whatever rows a part has.
struct ShardCut {
  int i, n;

  RowRange of(std::int64_t rows) const {
    return {batch::shard_begin(rows, i, n), batch::shard_begin(rows, i + 1, n)};
  }
  template <OwnBatch Own>
  Own of(const Own& own) const {
    return own.shard(i, n);
  }
};

/// The same rows of each part.
struct RowsCut {
  RowRange rows;

  RowRange of(std::int64_t) const { return rows; }
  template <OwnBatch Own>
  Own of(const Own& own) const {
    check(false, "a batch type that cuts itself does not say where its rows are");
    return own;
  }
};

/// A batch with each of its parts cut, as views.
template <class Batch, class How>
Batch cut_parts(const Batch& batch, const How& how) {
  if constexpr (OwnBatch<Batch>) {
    return how.of(batch);
  } else if constexpr (kIsList<Batch>) {
    const auto& items = items_of(batch);
    const RowRange rows = how.of(static_cast<std::int64_t>(items.size()));
    Batch result;
    items_of(result).assign(items.begin() + rows.begin, items.begin() + rows.end);
    return result;
  } else {
    Batch result = batch;
    for_each_leaf(result, [&]<class Leaf>(Leaf& leaf, const Part& at) {
      if constexpr (std::is_same_v<Leaf, torch::Tensor>) {
        if (const std::int64_t rows = rows_of(leaf, at); rows >= 0)
          leaf = cut(leaf, at, how.of(rows));
      } else if constexpr (kShardable<Leaf>) {
        if (at.cut != Cut::whole) leaf = cut_parts(leaf, how);
      }
    });
    return result;
  }
}

}  // namespace lockstep::detail
