#pragma once

// Random numbers that belong to a key, such as (seed, epoch, item): the same on every thread, in
// every order, after every restart.

#include <cstdint>
#include <span>

namespace lockstep {

/// The random stream of (seed, a, b). Streams of different keys are independent.
class KeyedRandom {
 public:
  KeyedRandom(std::uint64_t seed, std::int64_t a, std::int64_t b);

  std::uint64_t next();                ///< 64 random bits
  double uniform();                    ///< from 0 up to, not including, 1
  std::int64_t below(std::int64_t n);  ///< 0 to n - 1, all equally likely; n >= 1
  bool coin() { return (next() >> 63U) != 0; }

 private:
  std::uint64_t key_;
  std::uint64_t counter_;
};

/// A seed that belongs to a seed and any number of integers.
std::uint64_t combined_seed(std::uint64_t seed, std::span<const std::int64_t> numbers);

/// Item `i` of the permutation of 0 to n - 1 that belongs to (seed, epoch): a Feistel network with
/// cycle walking, O(1) in time and memory, so that a shuffled order need not be kept. 0 <= i < n.
std::int64_t permuted(std::int64_t i, std::int64_t n, std::uint64_t seed, std::int64_t epoch);

}  // namespace lockstep
