#pragma once

// Goal: by which metric checkpoints, and trainings, are compared.

#include <cstdint>
#include <map>
#include <string>

namespace lockstep {

struct Goal {
  std::string metric = {};  ///< "accuracy" of the first set, or "test/accuracy"; empty: no goal
  bool higher_is_better = true;
  std::int64_t patience = 0;  ///< early stopping: evaluations without a new best; 0: off
};

/// What an evaluation is worth: larger is better, NaN: it does not have the goal's metric.
/// `metrics` are named "test/accuracy".
double score(const Goal& goal, const std::map<std::string, double>& metrics);

}  // namespace lockstep
