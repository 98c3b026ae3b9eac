#include "strategy/balance.h"

#include <algorithm>

namespace lockstep::strategy {
namespace {

constexpr double kSmoothing = 0.5, kWorthwhile = 0.95;

/// When the last tower is done.
Seconds longest(const Ranges& ranges, std::span<const Seconds> times) {
  Seconds result{};
  for (std::size_t i = 0; i < ranges.size(); ++i)
    result = std::max(result, times[i] * ranges[i].size());
  return result;
}

}  // namespace

Ranges even_ranges(int shards, std::size_t towers) {
  Ranges ranges;
  const int count = static_cast<int>(towers);
  for (int tower = 0; tower < count; ++tower)
    ranges.push_back({shards * tower / count, shards * (tower + 1) / count});
  return ranges;
}

Ranges balanced(const Ranges& now, std::span<const Seconds> times) {
  std::vector<int> counts(now.size());
  const auto done = [&](std::size_t i) { return times[i] * (counts[i] + 1); };
  for (int shard = 0; shard < now.back().end; ++shard) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < counts.size(); ++i)
      if (done(i) < done(best)) best = i;
    ++counts[best];
  }
  Ranges then;
  for (int first = 0; const int count : counts) {
    then.push_back({first, first + count});
    first += count;
  }
  return longest(then, times) < kWorthwhile * longest(now, times) ? then : now;
}

Seconds smoothed(Seconds known, Seconds time) {
  return known == Seconds{} ? time : known + kSmoothing * (time - known);
}

}  // namespace lockstep::strategy
