#pragma once

// Vector clocks: what is known to have happened before what.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::sim {

/// For each stream, how many of its operators are known to be over. Missing entries are 0.
class VectorClock {
 public:
  std::uint64_t operator[](std::size_t stream) const {
    return stream < counts_.size() ? counts_[stream] : 0;
  }

  /// One more operator of `stream`; returns its number, from 1.
  std::uint64_t advance(std::size_t stream) {
    if (counts_.size() <= stream) counts_.resize(stream + 1);
    return ++counts_[stream];
  }

  /// Knows that the first `count` operators of `stream` are over.
  void know(std::size_t stream, std::uint64_t count) {
    if (counts_.size() <= stream) counts_.resize(stream + 1);
    counts_[stream] = std::max(counts_[stream], count);
  }

  /// Knows afterwards what either knew.
  void join(const VectorClock& other) {
    if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size());
    for (std::size_t i = 0; i < other.counts_.size(); ++i)
      counts_[i] = std::max(counts_[i], other.counts_[i]);
  }

 private:
  std::vector<std::uint64_t> counts_;
};

}  // namespace lockstep::sim
