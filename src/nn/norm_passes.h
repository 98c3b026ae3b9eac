#pragma once

// A batch norm in training as passes over channels-last images: forth and back.

#include <ATen/ATen.h>
#include <lockstep/kernels/batch_norm.h>

#include <cstdint>

#include "nn/pixel_rows.h"

namespace lockstep::nn {

/// What a norm computes of its input, by channel; all but the factors in double precision.
struct NormStatistics {
  at::Tensor mean;
  at::Tensor variance;
  at::Tensor reciprocal;  ///< of the deviation, 1 / sqrt(variance + epsilon)
  at::Tensor factors;     ///< scale and shift: [2, channels], float
};

/// `moments` are the means of the numbers and of their squares: [2, channels], double.
NormStatistics norm_statistics(const at::Tensor& moments, const at::Tensor& gain,
                               const at::Tensor& shift, double epsilon);

/// Writes the normalised numbers. Both are channels-last images.
void normalise_images(const at::Tensor& numbers, const at::Tensor& factors,
                      kernels::NormActivation activation, const at::Tensor& outputs);

/// The way back. Tensors are as in NormStatistics; images are channels last.
class NormBack {
 public:
  /// Sums the gradients up.
  NormBack(const at::Tensor& numbers, const NormStatistics& statistics,
           kernels::NormActivation activation, const at::Tensor& d_outputs);

  const RowRanges& ranges() const { return ranges_; }
  std::int64_t channels() const { return flat_.size(1); }
  const at::Tensor& d_gain() const { return d_gain_; }
  const at::Tensor& d_shift() const { return d_shift_; }

  /// Writes the gradient by the numbers of some rows. Several threads may call it.
  void write(std::int64_t first_row, std::int64_t rows, float* into) const;

 private:
  kernels::NormFactors how() const;

  const at::Tensor flat_, d_flat_;  // [rows, channels]
  const at::Tensor factors_;
  const kernels::NormActivation activation_;
  const RowRanges ranges_;
  at::Tensor d_gain_, d_shift_;
  at::Tensor back_;  // what is subtracted from a gradient: slope and offset, [2, channels]
};

}  // namespace lockstep::nn
