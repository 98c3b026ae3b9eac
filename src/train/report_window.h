#pragma once

// What a report is made of: sums over the steps since the last one.

#include <lockstep/observer.h>

namespace lockstep::train {

/// Adds rows to a sum, which is unknown as soon as a part is unknown.
void add_rows(std::optional<std::int64_t>& sum, const std::optional<std::int64_t>& rows);

/// Adds up steps. What a checkpoint keeps of them is in a StepWindow; the rest is this session's.
class ReportWindow {
 public:
  void add(const StepReport& step, double learning_rate, StepWindow& kept);

  /// Everything but progress and estimates.
  TrainingReport report(const StepWindow& kept) const;

  void clear() { *this = {}; }

 private:
  void add(const TowerReport& tower, bool counts);

  std::int64_t steps_ = 0;
  std::optional<std::int64_t> rows_ = 0;
  Seconds time_{};
  std::vector<TowerReport> towers_;  ///< sums; `loss` too, until it is reported
  std::vector<std::string> notes_;
};

}  // namespace lockstep::train
