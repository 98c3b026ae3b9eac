#include <lockstep/retention.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace lockstep {

std::vector<bool> kept(const Retention& retention, const std::vector<Candidate>& candidates) {
  const std::size_t count = candidates.size();
  std::vector<bool> stays(count, false);
  for (std::size_t i = 0; i < count; ++i)
    if (count - i <= static_cast<std::size_t>(std::max(retention.last, 1))) stays[i] = true;

  if (retention.every_hours > 0) {
    double next = -INFINITY;
    for (std::size_t i = 0; i < count; ++i) {
      const auto time = static_cast<double>(candidates[i].time);
      if (time < next) continue;
      stays[i] = true;
      next = time + 3600 * retention.every_hours;
    }
  }

  std::vector<std::size_t> by_score;
  for (std::size_t i = 0; i < count; ++i)
    if (!std::isnan(candidates[i].score)) by_score.push_back(i);
  std::ranges::stable_sort(by_score, [&](std::size_t a, std::size_t b) {
    return candidates[a].score > candidates[b].score;
  });
  by_score.resize(std::min(by_score.size(), static_cast<std::size_t>(std::max(retention.best, 0))));
  for (const std::size_t i : by_score) stays[i] = true;
  return stays;
}

std::string describe(const Retention& retention) {
  std::string text = "the last " + std::to_string(std::max(retention.last, 1));
  if (retention.every_hours > 0) {
    char hours[32];
    std::snprintf(hours, sizeof hours, "%g", retention.every_hours);
    text += ", one every " + std::string(hours) + (retention.every_hours == 1 ? " hour" : " hours");
  }
  if (retention.best > 0) text += ", the best " + std::to_string(retention.best);
  return text;
}

}  // namespace lockstep
