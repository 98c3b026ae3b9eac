#include "train/report_window.h"

#include <algorithm>

namespace lockstep::train {

void add_rows(std::optional<std::int64_t>& sum, const std::optional<std::int64_t>& rows) {
  if (!rows)
    sum.reset();
  else if (sum)
    *sum += *rows;
}

namespace {

/// What a step measured, under the name of its phase if it has one.
void add_figures(const StepReport& step, StepWindow& kept) {
  const std::string prefix = step.phase.empty() ? "" : step.phase + "/";
  if (step.phase.empty()) {
    kept.loss_sum += step.loss * step.weight;
    kept.weight += step.weight;
  } else {
    kept.losses[step.phase] += {step.loss * step.weight, step.weight};
  }
  for (const auto& [name, value] : step.metrics)
    if (const double weight = step.metric_weights.at(name); weight > 0)
      kept.metrics[prefix + name] += {value * weight, weight};
}

std::map<std::string, double> values_of(const Metrics& means) {
  std::map<std::string, double> values;
  for (const auto& [name, mean] : means) values[name] = mean.value();
  return values;
}

}  // namespace

void ReportWindow::add(const StepReport& step, double learning_rate, StepWindow& kept) {
  ++kept.steps;
  kept.clipped += step.clipped ? 1 : 0;
  if (step.staleness) ++kept.staleness.steps[*step.staleness];
  if (step.applied) add_figures(step, kept);
  kept.learning_rate = learning_rate;
  kept.gradient_norm = step.gradient_norm;
  ++steps_;
  add_rows(rows_, step.rows);
  time_ += step.time;
  notes_.insert(notes_.end(), step.notes.begin(), step.notes.end());
  for (const TowerReport& tower : step.towers) add(tower, step.applied && step.phase.empty());
}

void ReportWindow::add(const TowerReport& tower, bool counts) {
  auto found = std::ranges::find(towers_, tower.device, &TowerReport::device);
  if (found == towers_.end()) found = towers_.insert(found, {.device = tower.device});
  if (tower.shards > 0) found->shards = tower.shards;
  add_rows(found->rows, tower.rows);
  found->peak_bytes = std::max(found->peak_bytes, tower.peak_bytes);
  for (const auto& [name, time] : kStageTimes) (*found).*time += tower.*time;
  if (!counts || tower.weight == 0) return;  // as the total
  found->loss += tower.loss * tower.weight;
  found->weight += tower.weight;
}

TrainingReport ReportWindow::report(const StepWindow& kept) const {
  const auto steps = static_cast<double>(std::max<std::int64_t>(steps_, 1));
  TrainingReport report{.steps = kept.steps,
                        .loss = kept.loss_sum / kept.weight,
                        .losses = values_of(kept.losses),
                        .metrics = values_of(kept.metrics),
                        .learning_rate = kept.learning_rate,
                        .gradient_norm = kept.gradient_norm,
                        .clip_rate = static_cast<double>(kept.clipped) /
                                     static_cast<double>(std::max<std::int64_t>(kept.steps, 1)),
                        .staleness = kept.staleness,
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
