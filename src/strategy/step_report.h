#pragma once

// What a step tells.

#include <lockstep/model_strategy.h>
#include <lockstep/report.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "strategy/flat.h"
#include "strategy/outcome.h"
#include "strategy/results.h"
#include "strategy/tower.h"

namespace lockstep::strategy {

/// What all towers agreed on; the rest is to be added.
StepResult result_of(std::int64_t step, const std::string& phase, const Outcome& outcome);

TowerReport report_of(const Tower& tower);

/// Adds up what towers have computed of a batch.
class BatchResults {
 public:
  void add(std::optional<std::int64_t> rows, const std::vector<ShardResults>& shards);
  /// Rows, metrics and outputs, into the result.
  void put_into(StepResult& result) const;

 private:
  std::optional<std::int64_t> rows_ = 0;  // nothing: a tower does not know
  StepResults results_;
};

/// The time of the step, as all towers see it; what a tower does not account for, it waited.
void settle_times(StepReport& report, Seconds on_host);

/// What is worth saying, each once.
class Notes {
 public:
  void add(std::string note) { pending_.push_back(std::move(note)); }
  void add(const std::vector<std::string>& notes) {
    pending_.insert(pending_.end(), notes.begin(), notes.end());
  }

  /// What was added since the last call, parameters without a gradient, and fallbacks.
  std::vector<std::string> take(const Outcome& outcome, const ParameterMap& map);

 private:
  std::vector<std::string> pending_;  // to be said with the next report
  std::set<std::string> said_;        // parameters without gradient, fallbacks
};

}  // namespace lockstep::strategy
