#pragma once

#include <cstdint>
#include <span>

namespace bench {

/// What the peers, written in Python, use of numpy's `default_rng(seed)`, number for number: a
/// PCG64 generator (XSL-RR 128/64) seeded by a SeedSequence. Every call draws from one stream, so
/// calls must come in their order. 64-bit outputs serve 32-bit requests in halves, low half first;
/// the half left over by one call is the first number of the next.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint64_t seed);

  /// `random(out.size(), float32)`: uniform in [0, 1), multiples of 2^-24.
  void random(std::span<float> out);

  /// `standard_normal(out.size(), float32)`, by the ziggurat method.
  void standard_normal(std::span<float> out);

  /// `integers(bound, size=out.size())` with 0 < bound < 2^32: numpy draws 32 bits for an int64
  /// as for an int32, so that both have the same numbers.
  void integers(std::uint32_t bound, std::span<std::int64_t> out);

 private:
  __extension__ typedef unsigned __int128 Uint128;

  std::uint64_t next_uint64();
  std::uint32_t next_uint32();
  float next_float();

  Uint128 state_ = 0;
  Uint128 increment_ = 0;
  bool has_half_ = false;
  std::uint32_t half_ = 0;  // the high half of the last output, if has_half_
};

}  // namespace bench
