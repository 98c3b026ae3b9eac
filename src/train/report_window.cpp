#include "train/report_window.h"

#include <algorithm>

namespace lockstep::train {

void add_rows(std::optional<std::int64_t>& sum, const std::optional<std::int64_t>& rows) {
  if (!rows)
    sum.reset();
  else if (sum)
    *sum += *rows;
}

void ReportWindow::add(const StepReport& step, double learning_rate, StepWindow& kept) {
  ++kept.steps;
  kept.clipped += step.clipped ? 1 : 0;
  if (step.applied) {
    kept.loss_sum += step.loss * step.weight;
    kept.weight += step.weight;
  }
  kept.learning_rate = learning_rate;
  kept.gradient_norm = step.gradient_norm;
  ++steps_;
  add_rows(rows_, step.rows);
  time_ += step.time;
  notes_.insert(notes_.end(), step.notes.begin(), step.notes.end());
  for (const TowerReport& tower : step.towers) add(tower, step.applied);
}

void ReportWindow::add(const TowerReport& tower, bool applied) {
  auto found = std::ranges::find(towers_, tower.device, &TowerReport::device);
  if (found == towers_.end()) found = towers_.insert(found, {.device = tower.device});
  found->shards = tower.shards;
  add_rows(found->rows, tower.rows);
  found->peak_bytes = std::max(found->peak_bytes, tower.peak_bytes);
  for (const auto& [name, time] : kStageTimes) (*found).*time += tower.*time;
  if (!applied || tower.weight == 0) return;  // as the total
  found->loss += tower.loss * tower.weight;
  found->weight += tower.weight;
}

TrainingReport ReportWindow::report(const StepWindow& kept) const {
  const auto steps = static_cast<double>(std::max<std::int64_t>(steps_, 1));
  TrainingReport report{.steps = kept.steps,
                        .loss = kept.loss_sum / kept.weight,
                        .learning_rate = kept.learning_rate,
                        .gradient_norm = kept.gradient_norm,
                        .clip_rate = static_cast<double>(kept.clipped) /
                                     static_cast<double>(std::max<std::int64_t>(kept.steps, 1)),
                        .towers = towers_,
                        .time = time_ / steps,
                        .notes = notes_};
  if (rows_ && time_ > Seconds(0))
    report.rows_per_second = static_cast<double>(*rows_) / time_.count();
  for (TowerReport& tower : report.towers) {
    tower.loss /= tower.weight;  // NaN without weight
    for (const auto& [name, time] : kStageTimes) tower.*time /= steps;
  }
  return report;
}

}  // namespace lockstep::train
