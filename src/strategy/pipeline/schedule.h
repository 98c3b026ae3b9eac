#pragma once

// 1F1B: the order in which a stage computes the shards that flow through it.

#include <algorithm>
#include <vector>

namespace lockstep::strategy {

struct StageItem {
  bool forward = true;  ///< else backward
  int shard = 0;        ///< of those of the replica, from 0
};

/// Shards in flight at `stage` of `stages`, at most: the graphs that its memory holds.
/// `ahead` more for each stage that follows.
inline int in_flight(int stage, int stages, int shards, int ahead) {
  return std::min(stages - stage + ahead * (stages - 1 - stage), shards);
}

/// A stage begins with as many forwards as there are stages from it to the end. From then on
/// backward and forward take turns, so that no more shards than that are in flight.
inline std::vector<StageItem> one_forward_one_backward(int stage, int stages, int shards,
                                                       int ahead) {
  std::vector<StageItem> items;
  int forward = 0;
  while (forward < in_flight(stage, stages, shards, ahead)) items.push_back({true, forward++});
  for (int backward = 0; backward < shards; ++backward) {
    items.push_back({false, backward});
    if (forward < shards) items.push_back({true, forward++});
  }
  return items;
}

}  // namespace lockstep::strategy
