#include "events/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::events {

std::vector<Bucket> histogram(std::span<const float> values) {
  constexpr std::size_t kBuckets = 30;
  double least = std::numeric_limits<double>::infinity(), greatest = -least;
  for (const float value : values)
    if (std::isfinite(value)) {
      least = std::min<double>(least, value);
      greatest = std::max<double>(greatest, value);
    }
  std::vector<Bucket> buckets(kBuckets);
  if (least > greatest) return buckets;
  const double width = (greatest - least) / kBuckets;  // doubles: floats cannot overflow it
  for (std::size_t i = 0; i < kBuckets; ++i) {
    buckets[i].left = least + width * static_cast<double>(i);
    buckets[i].right = least + width * static_cast<double>(i + 1);
  }
  buckets.back().right = greatest;
  for (const float value : values)
    if (std::isfinite(value)) {
      const double place = width > 0 ? (value - least) / width : kBuckets;
      buckets[std::min(static_cast<std::size_t>(place), kBuckets - 1)].count += 1;
    }
  return buckets;
}

}  // namespace lockstep::events
