#include "collective/machine_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace lockstep::collective {
namespace {

/// Even shards for all towers.
std::vector<Shares> even(int shards, int towers) {
  std::vector<Shares> shares;
  for (int tower = 0; tower < towers; ++tower)
    shares.push_back({shards * tower / towers, shards * (tower + 1) / towers});
  return shares;
}

double busiest(const MachinePlan& plan) {
  double most = 0;
  for (int machine = 0; machine < plan.machines(); ++machine)
    most = std::max(most, traffic(plan, machine));
  return most;
}

std::string megabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, bytes < 1e6 ? "%.2f MB" : "%.0f MB", bytes / 1e6);
  return text;
}

}  // namespace

MachinePlan::MachinePlan(std::vector<int> by_machine, const std::vector<Shares>& by_tower,
                         int number)
    : towers(std::move(by_machine)), first_tower(towers.size() + 1), shards(number) {
  std::partial_sum(towers.begin(), towers.end(), first_tower.begin() + 1);
  for (std::size_t machine = 0; machine < towers.size(); ++machine) {
    const auto first = static_cast<std::size_t>(first_tower[machine]);
    const auto end = static_cast<std::size_t>(first_tower[machine + 1]);
    shares.push_back({by_tower[first].first, by_tower[end - 1].end});
    roots.push_back(roots_of(shares.back().first, shares.back().end, shards));
  }
}

arena::Slice MachinePlan::run(const arena::Bucket& bucket, int machine) const {
  const auto at = static_cast<std::size_t>(machine);
  return {arena::slice_of(bucket, first_tower[at], total()).begin,
          arena::slice_of(bucket, first_tower[at + 1] - 1, total()).end};
}

double traffic(const MachinePlan& plan, int machine) {
  const auto at = static_cast<std::size_t>(machine);
  const double own = static_cast<double>(plan.towers[at]) / plan.total();
  return static_cast<double>(plan.roots[at].size()) * (1 - own) + own * (plan.machines() - 1);
}

std::string describe_traffic(const MachinePlan& plan, std::int64_t bytes) {
  const double now = busiest(plan);
  std::string text = std::to_string(plan.machines()) +
                     " machines: in a step the busiest one sends " +
                     megabytes(now * static_cast<double>(bytes));
  int better = plan.shards;
  double least = now;
  // Powers of two times machines: with those every machine has one root, if they are alike.
  for (int shards = plan.machines(); shards <= 4 * std::max(plan.shards, plan.total()); shards *= 2)
    if (shards >= plan.total()) {
      const double other = busiest({plan.towers, even(shards, plan.total()), shards});
      if (other < 0.9 * least) {
        least = other;
        better = shards;
      }
    }
  if (better == plan.shards) return text + ".";
  return text + "; with " + std::to_string(better) + " shards it would be " +
         megabytes(least * static_cast<double>(bytes)) +
         " (another number of shards is another training: choose it before you begin).";
}

}  // namespace lockstep::collective
