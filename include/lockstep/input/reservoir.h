#pragma once

// A random sample of items that come one after the other, however many they are.

#include <lockstep/random.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::input {

/// Reservoir sampling (Vitter's algorithm R): at most `most` of the items that were added, each as
/// likely as the other. The same items and seed give the same sample. O(1) an item.
template <class T>
class Reservoir {
 public:
  Reservoir(std::int64_t most, std::uint64_t seed) : most_(most), random_(seed, 0, 0) {}

  void add(T item) {
    if (++seen_ <= most_) {
      sample_.push_back(std::move(item));
    } else if (const std::int64_t place = random_.below(seen_); place < most_) {
      sample_[static_cast<std::size_t>(place)] = std::move(item);
    }
  }

  std::int64_t seen() const { return seen_; }
  std::vector<T> take() && { return std::move(sample_); }

 private:
  std::int64_t most_;
  KeyedRandom random_;
  std::int64_t seen_ = 0;
  std::vector<T> sample_;
};

}  // namespace lockstep::input
