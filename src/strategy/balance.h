#pragma once

// Which tower computes which shards. The result does not depend on it.

#include <lockstep/report.h>

#include <span>
#include <vector>

namespace lockstep::strategy {

/// The shards that a tower computes: [first, end).
struct ShardRange {
  int first = 0, end = 0;
  int size() const { return end - first; }
  friend bool operator==(const ShardRange&, const ShardRange&) = default;
};

/// One a tower; together they are all shards, in order.
using Ranges = std::vector<ShardRange>;

Ranges even_ranges(int shards, std::size_t towers);

/// Gives slow towers fewer shards: one after the other, each shard goes where it will be done
/// first. `times` is what a shard takes on each tower, 0 where that is not known yet. Returns `now`
/// unless the new ranges are clearly better, because then the exchange is planned anew.
Ranges balanced(const Ranges& now, std::span<const Seconds> times);

/// What a shard takes, by what was known before (0: nothing) and one more step.
Seconds smoothed(Seconds known, Seconds time);

}  // namespace lockstep::strategy
