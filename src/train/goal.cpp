#include <lockstep/goal.h>
#include <lockstep/trainer.h>

#include <algorithm>
#include <limits>

namespace lockstep {

std::int64_t step_limit(const Limits& limits, std::int64_t steps_per_epoch) {
  const std::int64_t by_epochs = limits.epochs * steps_per_epoch;
  if (limits.steps == 0 || by_epochs == 0) return std::max(limits.steps, by_epochs);
  return std::min(limits.steps, by_epochs);
}

double score(const Goal& goal, const std::map<std::string, double>& metrics) {
  const bool any_set = goal.metric.find('/') == std::string::npos;
  const auto found = std::ranges::find_if(metrics, [&](const auto& metric) {
    return goal.metric ==
           (any_set ? metric.first.substr(metric.first.find('/') + 1) : metric.first);
  });
  if (found == metrics.end()) return std::numeric_limits<double>::quiet_NaN();
  return goal.higher_is_better ? found->second : -found->second;
}

}  // namespace lockstep
