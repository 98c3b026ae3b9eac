#pragma once

// What moves where, and what is added to what, when towers on accelerators reduce and gather. Made
// once, with all memory it takes.
//
// Towers may be spread over processes. Each process has a plan of its own: what its towers, the
// local ones, send, take in and add, and memory for them alone. The plans are cuts of one plan for
// all towers: for two processes, both have the same moves between them in the same order.

#include <lockstep/device.h>
#include <lockstep/exchange.h>
#include <lockstep/method.h>

#include <vector>

#include "arena/arena.h"
#include "collective/collective.h"
#include "collective/transport.h"

namespace lockstep::collective {

/// A tower, as far as the exchange is concerned. Parties of one process are neighbours.
struct Party {
  Device device;
  int first_shard = 0, end_shard = 0;
  std::vector<torch::Tensor> parameters;  ///< flat, by arena, on its device; only of local parties
  int process = 0;
};

/// What is exchanged. In `fast` reduction a tower brings one sum, whatever its shards.
struct ExchangeShape {
  int shards = 0;
  std::vector<arena::Layout> layouts;
  std::vector<arena::Bucket> buckets;
  Exchanging how;
  Reduction reduction = Reduction::exact;
  int process = 0;          ///< this one: the local parties are those of it
  bool only_sizes = false;  ///< tensors without memory, as the parties' must be: to reckon with
};

/// into += from, in place, on the stream of `tower`.
struct Addition {
  int tower = 0;
  torch::Tensor into, from;
};

/// One pack of a bucket, in the order of its members.
struct PackPlan {
  std::vector<Move> to_agents;   ///< inside each group
  std::vector<Addition> inside;  ///< by the agents
  std::vector<Move> to_owners;   ///< across groups
  std::vector<Addition> across;  ///< by the owners
  std::vector<Sum> sums;         ///< the same as all of this, for a transport that can sum
};

struct BucketPlan {
  std::vector<PackPlan> packs;
};

/// Towers are cut into groups of neighbours, of one process each. Of every group one member, the
/// agent, stands for a given owner of a slice: it sums the slice inside the group, and the owner
/// sums over agents.
struct ExchangePlan {
  std::vector<BucketPlan> buckets;
  std::vector<std::vector<torch::Tensor>> sums;  ///< by tower and bucket; undefined: not local
  std::vector<Move> gather_across, gather_inside;
  /// By tower, then the roots it brings: flat gradient arenas, undefined where it is not local.
  struct Root {
    int shard = 0;
    std::vector<torch::Tensor> arenas;
  };
  std::vector<std::vector<Root>> roots;
};

ExchangePlan make_plan(const std::vector<Party>& parties, const ExchangeShape& shape);

}  // namespace lockstep::collective
