#pragma once

// The order in which shards are summed: a fixed binary tree over shard numbers.
//
// With stride 1, 2, 4, ...: shard i absorbs shard i + stride, for every i that is a multiple of
// 2 * stride. What is left in shard 0 is the sum. A tower may absorb early what it computed itself;
// the tree stays the same. See "Note: tree order" in docs/notes.md.

#include <vector>

namespace lockstep::collective {

/// `into` absorbs `from`; both are the first shards of their subtrees.
struct Merge {
  int into = 0;
  int from = 0;
  friend bool operator==(const Merge&, const Merge&) = default;
};

/// Merges that become possible inside a tower that computes shards from `first` on, in order, when
/// `shard` is done; `shards` is their number in the whole batch.
std::vector<Merge> merges_after(int shard, int first, int shards);

/// The merges left over all shards, of which only those `present` hold a sum: the others were
/// empty or absorbed before. A merge into a shard that is not present takes `from` as it is.
std::vector<Merge> merges_left(std::vector<bool> present);

/// All merges that are possible inside [first, end) of `shards`: what a machine can merge of its
/// own.
std::vector<Merge> merges_inside(int first, int end, int shards);

/// Shards that are left as roots when a tower, or a machine, has merged what it can of [first,
/// end).
std::vector<int> roots_of(int first, int end, int shards);

}  // namespace lockstep::collective
