#pragma once

// Elementwise loops over runs of gradients, each a single pass. Elements do not depend on where a
// run is cut; nothing depends on the machine's vector width.

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>

namespace lockstep::collective {

/// out = a + b, `n` elements of `dtype`, rounded to it. `out` may be `a`.
void add(c10::ScalarType dtype, void* out, const void* a, const void* b, std::int64_t n);

/// out = in * factor, rounded to the dtype; returns the sum of the squares of `out` as double.
/// `out` may be `in`.
double scale(c10::ScalarType dtype, void* out, const void* in, double factor, std::int64_t n);

/// A sum of squares as it grows, as doubles: element i goes to lane i % 8, so that the sum over a
/// block does not depend on the runs it came in, as long as each begins at a multiple of 8.
using Lanes = std::array<double, 8>;
double total(const Lanes& lanes);

/// out = in / divisor, rounded to the dtype; the squares of `out` are added to `lanes`.
void divide(c10::ScalarType dtype, void* out, const void* in, double divisor, std::int64_t n,
            Lanes& lanes);

/// Sum of squares, total() of the lanes of a single run: finite only if all elements are (and not
/// enormous).
double squares(c10::ScalarType dtype, const void* in, std::int64_t n);

/// Throws ConfigError unless parameters of `dtype` can be trained: float32, float64, bfloat16,
/// float16.
void require_trainable(c10::ScalarType dtype);

}  // namespace lockstep::collective
