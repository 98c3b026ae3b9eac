#pragma once

#include <span>
#include <vector>

namespace lockstep::events {

/// A row of the tensor that TensorBoard's histograms are: how many values lie in [left, right),
/// in the last bucket also at its right edge.
struct Bucket {
  double left = 0, right = 0, count = 0;
};

/// 30 buckets of equal width over the finite ones of `values`, as TensorBoard makes them: equal
/// values are all in the last, and without any value all buckets are zero. O(values).
std::vector<Bucket> histogram(std::span<const float> values);

}  // namespace lockstep::events
