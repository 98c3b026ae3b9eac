#pragma once

// Who sends what to whom when the CPU devices of several machines reduce and gather.
//
// Towers are numbered through all machines, so the shards of a machine are a range, and what its
// towers own of a bucket is one run of elements. A machine merges its own shards as far as the tree
// allows, and sends what is left, its roots, to the machine that owns the elements. That one merges
// in tree order, divides, updates, and sends the parameters to all others. With one root a machine
// that is the traffic of a ring all-reduce.

#include <string>
#include <vector>

#include "arena/arena.h"
#include "collective/tree.h"

namespace lockstep::collective {

/// The shards of a tower: [first, end).
struct Shares {
  int first = 0, end = 0;
};

struct MachinePlan {
  /// `towers` by machine: how many; `shares` by tower, of all machines.
  MachinePlan(std::vector<int> towers, const std::vector<Shares>& shares, int shards);

  int machines() const { return static_cast<int>(towers.size()); }
  int total() const { return first_tower.back(); }

  /// What the towers of `machine` own of a bucket.
  arena::Slice run(const arena::Bucket& bucket, int machine) const;

  std::vector<int> towers;              ///< by machine
  std::vector<int> first_tower;         ///< by machine, and last their number
  std::vector<Shares> shares;           ///< by machine
  std::vector<std::vector<int>> roots;  ///< by machine: the first shards of what it cannot merge
  int shards;
};

/// Elements that machine `machine` sends in a step, as a part of all elements.
double traffic(const MachinePlan& plan, int machine);

/// What is printed at the start: traffic of the busiest machine, and advice when another number of
/// shards would move clearly less.
std::string describe_traffic(const MachinePlan& plan, std::int64_t bytes);

}  // namespace lockstep::collective
