#pragma once

// What a report is made of: sums over the steps since the last one.

#include <lockstep/observer.h>

#include <utility>

namespace lockstep::train {

/// What a tower's time is split into.
inline constexpr std::pair<const char*, Seconds TowerReport::*> kStages[] = {
    {"input", &TowerReport::input},       {"forward", &TowerReport::forward},
    {"backward", &TowerReport::backward}, {"wait", &TowerReport::wait},
    {"reduce", &TowerReport::reduce},     {"update", &TowerReport::update}};

/// The parts of a report that a checkpoint does not keep.
class ReportWindow {
 public:
  void add(const StepReport& step, Seconds took);

  /// Fills towers, notes and speed.
  void fill(TrainingReport& report) const;

  void clear() { *this = {}; }

 private:
  std::int64_t steps_ = 0;
  double rows_ = 0;
  Seconds took_{};
  std::vector<TowerReport> towers_;
  std::vector<double> weights_;  ///< of the towers' losses
  std::vector<std::string> notes_;
};

/// Rows of a step; its weight where the rows are not known.
inline double rows_of(const StepReport& step) {
  return step.rows >= 0 ? static_cast<double>(step.rows) : step.weight;
}

}  // namespace lockstep::train
