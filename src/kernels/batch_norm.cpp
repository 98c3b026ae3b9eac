#include <lockstep/kernels/batch_norm.h>

#include <bit>

#include "base/clones.h"

namespace lockstep::kernels {
namespace {

LOCKSTEP_INLINE float relu6(float x) {
  const float above = x > 0 ? x : 0;
  return above < 6 ? above : 6;
}

/// `gradient` where 0 < x < 6, else 0. Compared as whole numbers: compilers do not vectorise
/// branches on floats that may trap.
LOCKSTEP_INLINE float through_relu6(float x, float gradient) {
  constexpr auto kSix = std::bit_cast<std::uint32_t>(6.F);
  const std::uint32_t mask = std::bit_cast<std::uint32_t>(x) - 1 < kSix - 1 ? ~0U : 0U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(gradient) & mask);
}

LOCKSTEP_CLONES void sum(NormSize size, const float* __restrict numbers, double* __restrict sums,
                         double* __restrict squares) {
  const std::int64_t n = size.channels;
  for (std::int64_t row = 0; row < size.rows; ++row)
    for (std::int64_t i = 0; i < n; ++i) {
      const double number = static_cast<double>(numbers[row * n + i]);
      sums[i] += number;
      squares[i] += number * number;
    }
}

LOCKSTEP_CLONES void scale_plain(NormSize size, const float* __restrict numbers,
                                 const float* __restrict scale, const float* __restrict shift,
                                 float* __restrict into) {
  const std::int64_t n = size.channels;
  for (std::int64_t row = 0; row < size.rows; ++row)
    for (std::int64_t i = 0; i < n; ++i)
      into[row * n + i] = numbers[row * n + i] * scale[i] + shift[i];
}

LOCKSTEP_CLONES void scale_relu6(NormSize size, const float* __restrict numbers,
                                 const float* __restrict scale, const float* __restrict shift,
                                 float* __restrict into) {
  const std::int64_t n = size.channels;
  for (std::int64_t row = 0; row < size.rows; ++row)
    for (std::int64_t i = 0; i < n; ++i)
      into[row * n + i] = relu6(numbers[row * n + i] * scale[i] + shift[i]);
}

LOCKSTEP_CLONES void sum_back_plain(NormSize size, const float* __restrict d_outputs,
                                    const float* __restrict numbers, double* __restrict sums,
                                    double* __restrict products) {
  const std::int64_t n = size.channels;
  for (std::int64_t row = 0; row < size.rows; ++row)
    for (std::int64_t i = 0; i < n; ++i) {
      const double gradient = static_cast<double>(d_outputs[row * n + i]);
      sums[i] += gradient;
      products[i] += gradient * static_cast<double>(numbers[row * n + i]);
    }
}

LOCKSTEP_CLONES void sum_back_relu6(NormSize size, const float* __restrict d_outputs,
                                    const float* __restrict numbers, const float* __restrict scale,
                                    const float* __restrict shift, double* __restrict sums,
                                    double* __restrict products) {
  const std::int64_t n = size.channels;
  for (std::int64_t row = 0; row < size.rows; ++row)
    for (std::int64_t i = 0; i < n; ++i) {
      const float number = numbers[row * n + i];
      const auto gradient =
          static_cast<double>(through_relu6(number * scale[i] + shift[i], d_outputs[row * n + i]));
      sums[i] += gradient;
      products[i] += gradient * static_cast<double>(number);
    }
}

LOCKSTEP_CLONES void scale_back_plain(NormSize size, const float* __restrict d_outputs,
                                      const float* __restrict numbers,
                                      const float* __restrict scale, const float* __restrict slope,
                                      const float* __restrict offset, float* __restrict into) {
  const std::int64_t n = size.channels;
  for (std::int64_t row = 0; row < size.rows; ++row)
    for (std::int64_t i = 0; i < n; ++i)
      into[row * n + i] =
          d_outputs[row * n + i] * scale[i] - (numbers[row * n + i] * slope[i] + offset[i]);
}

LOCKSTEP_CLONES void scale_back_relu6(NormSize size, const float* __restrict d_outputs,
                                      const float* __restrict numbers,
                                      const float* __restrict scale, const float* __restrict shift,
                                      const float* __restrict slope, const float* __restrict offset,
                                      float* __restrict into) {
  const std::int64_t n = size.channels;
  for (std::int64_t row = 0; row < size.rows; ++row)
    for (std::int64_t i = 0; i < n; ++i) {
      const float number = numbers[row * n + i];
      const float gradient = through_relu6(number * scale[i] + shift[i], d_outputs[row * n + i]);
      into[row * n + i] = gradient * scale[i] - (number * slope[i] + offset[i]);
    }
}

}  // namespace

void add_norm_sums(NormSize size, const float* numbers, double* sums, double* squares) {
  sum(size, numbers, sums, squares);
}

void normalise(NormSize size, const float* numbers, const NormFactors& factors, float* into) {
  if (factors.activation == NormActivation::relu6)
    scale_relu6(size, numbers, factors.scale, factors.shift, into);
  else
    scale_plain(size, numbers, factors.scale, factors.shift, into);
}

void add_norm_gradient_sums(NormSize size, const float* d_outputs, const float* numbers,
                            const NormFactors& factors, double* sums, double* products) {
  if (factors.activation == NormActivation::relu6)
    sum_back_relu6(size, d_outputs, numbers, factors.scale, factors.shift, sums, products);
  else
    sum_back_plain(size, d_outputs, numbers, sums, products);
}

void normalise_back(NormSize size, const float* d_outputs, const float* numbers,
                    const NormFactors& factors, const float* slope, const float* offset,
                    float* into) {
  if (factors.activation == NormActivation::relu6)
    scale_back_relu6(size, d_outputs, numbers, factors.scale, factors.shift, slope, offset, into);
  else
    scale_back_plain(size, d_outputs, numbers, factors.scale, slope, offset, into);
}

}  // namespace lockstep::kernels
