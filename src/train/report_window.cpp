#include "train/report_window.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::train {
void ReportWindow::add(const StepReport& step, Seconds took) {
  ++steps_;
  rows_ += rows_of(step);
  took_ += took;
  notes_.insert(notes_.end(), step.notes.begin(), step.notes.end());
  for (const TowerReport& tower : step.towers) {
    const auto found = std::ranges::find(towers_, tower.device, &TowerReport::device);
    const auto at = static_cast<std::size_t>(found - towers_.begin());
    if (found == towers_.end()) {
      towers_.push_back({.device = tower.device});
      weights_.push_back(0);
    }
    TowerReport& sum = towers_[at];
    sum.shards = tower.shards;
    sum.rows += tower.rows;
    sum.peak_bytes = std::max(sum.peak_bytes, tower.peak_bytes);
    for (const auto& [stage, time] : kStages) sum.*time += tower.*time;
    if (!std::isfinite(tower.loss)) continue;
    const double weight = tower.rows > 0 ? static_cast<double>(tower.rows) : 1;
    sum.loss += tower.loss * weight;
    weights_[at] += weight;
  }
}

void ReportWindow::fill(TrainingReport& report) const {
  report.rows_per_second = took_.count() > 0 ? rows_ / took_.count() : 0;
  report.notes = notes_;
  report.towers = towers_;
  for (std::size_t i = 0; i < towers_.size(); ++i) {
    TowerReport& tower = report.towers[i];
    tower.loss =
        weights_[i] > 0 ? tower.loss / weights_[i] : std::numeric_limits<double>::quiet_NaN();
    for (const auto& [stage, time] : kStages)
      tower.*time /= static_cast<double>(std::max<std::int64_t>(steps_, 1));
  }
}

}  // namespace lockstep::train
