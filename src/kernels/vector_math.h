#pragma once

// For loops that the compiler is to vectorise: exp and its neighbours.

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/clones.h"

namespace lockstep::kernels::vector_math {

// Compared as whole numbers: compilers do not vectorise branches on floats that may trap.
LOCKSTEP_INLINE std::int32_t bits_of(float x) { return std::bit_cast<std::int32_t>(x); }

/// exp(x), of x cut at +-most, to about an ulp: 2^n exp(r) with |r| <= log(2) / 2 and a Taylor
/// polynomial.
LOCKSTEP_INLINE float exp(float x, float most = 87) {
  constexpr float kRound = 12582912.F;  // 1.5 * 2^23: what is added to it becomes whole
  constexpr float kLog2High = 355 / 512.F, kLog2Low = -2.12194440e-4F;  // their sum is log(2)
  constexpr std::int32_t kInfinite = 0x7f800000;
  const std::int32_t magnitude = bits_of(std::fabs(x)), limit = bits_of(most);
  const bool fits = magnitude < limit || magnitude > kInfinite;  // what is no number stays so
  x = std::copysign(std::bit_cast<float>(fits ? magnitude : limit), x);
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLog2High) - n * kLog2Low;
  float p = 1 / 5040.F;
  p = p * r + 1 / 720.F;
  p = p * r + 1 / 120.F;
  p = p * r + 1 / 24.F;
  p = p * r + 1 / 6.F;
  p = p * r + 1 / 2.F;
  p = (p * r) * r + r + 1;
  const auto power = (static_cast<std::uint32_t>(bits_of(shifted)) << 23) + (127U << 23);
  return p * std::bit_cast<float>(power);
}

}  // namespace lockstep::kernels::vector_math
