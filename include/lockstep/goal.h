#pragma once

// Goal: the metric that decides which checkpoint is best, and when to stop early.

#include <cstdint>
#include <map>
#include <string>

namespace lockstep {

struct Goal {
  std::string metric = {};  ///< "accuracy" of the first set, or "test/accuracy"; empty: no goal
  bool higher_is_better = true;
  std::int64_t patience = 0;  ///< early stopping: evaluations without a new best; 0: off
};

/// The value of an evaluation: larger is better. NaN if it does not have the goal's metric.
/// `metrics` are named "test/accuracy".
double score(const Goal& goal, const std::map<std::string, double>& metrics);

}  // namespace lockstep
