#pragma once

// The passes over memory that a batch norm takes in training, with ReLU6 after it or without, in
// single precision on a CPU, channels last: numbers are [rows, channels], where a row is a pixel.
// Sums are in double precision. A function that adds to sums or writes is told where, in place.

#include <cstdint>

namespace lockstep::kernels {

struct NormSize {
  std::int64_t rows, channels;
};

enum class NormActivation { none, relu6 };

/// What a norm does to each channel: number * scale + shift, and then the activation.
struct NormFactors {
  const float* scale;
  const float* shift;
  NormActivation activation = NormActivation::none;
};

/// Adds each channel's sum and sum of squares.
void add_norm_sums(NormSize size, const float* numbers, double* sums, double* squares);

void normalise(NormSize size, const float* numbers, const NormFactors& factors, float* into);

/// Adds each channel's sum of gradients, as far as the activation lets them through, and that of
/// their products with the numbers.
void add_norm_gradient_sums(NormSize size, const float* d_outputs, const float* numbers,
                            const NormFactors& factors, double* sums, double* products);

/// Writes the gradient by the numbers: gradient * scale - (number * slope + offset), with the
/// gradient as far as the activation lets it through.
void normalise_back(NormSize size, const float* d_outputs, const float* numbers,
                    const NormFactors& factors, const float* slope, const float* offset,
                    float* into);

}  // namespace lockstep::kernels
