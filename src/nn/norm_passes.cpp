#include "nn/norm_passes.h"

namespace lockstep::nn {
namespace {

using at::Tensor;

const float* channel_row(const Tensor& table, std::int64_t row) {
  return table.const_data_ptr<float>() + row * table.size(1);
}

kernels::NormFactors norm_factors(const Tensor& factors, kernels::NormActivation activation) {
  return {channel_row(factors, 0), channel_row(factors, 1), activation};
}

}  // namespace

NormStatistics norm_statistics(const Tensor& moments, const Tensor& gain, const Tensor& shift,
                               double epsilon) {
  NormStatistics result;
  result.mean = moments[0];
  result.variance = (moments[1] - result.mean * result.mean).clamp_min_(0);
  result.reciprocal = (result.variance + epsilon).rsqrt_();
  const Tensor scale = result.reciprocal * gain;
  result.factors = at::stack({scale, shift - result.mean * scale}).to(at::kFloat);
  return result;
}

void normalise_images(const Tensor& numbers, const Tensor& factors,
                      kernels::NormActivation activation, const Tensor& outputs) {
  const Tensor flat = pixels(numbers), into = pixels(outputs);
  const std::int64_t channels = flat.size(1);
  RowRanges(flat.size(0)).run([&](std::int64_t, std::int64_t first, std::int64_t rows) {
    kernels::normalise({rows, channels}, channel_row(flat, first),
                       norm_factors(factors, activation),
                       into.mutable_data_ptr<float>() + first * channels);
  });
}

NormBack::NormBack(const Tensor& numbers, const NormStatistics& statistics,
                   kernels::NormActivation activation, const Tensor& d_outputs)
    : flat_(pixels(numbers)),
      d_flat_(pixels(d_outputs)),
      factors_(statistics.factors),
      activation_(activation),
      ranges_(flat_.size(0)) {
  const PairSums sums(ranges_, channels());
  ranges_.run([&](std::int64_t range, std::int64_t first, std::int64_t rows) {
    kernels::add_norm_gradient_sums({rows, channels()}, channel_row(d_flat_, first),
                                    channel_row(flat_, first), how(), sums.first(range),
                                    sums.second(range));
  });
  const Tensor total = sums.total();
  const Tensor along = (total[1] - statistics.mean * total[0]) * statistics.reciprocal;
  const Tensor scale = factors_[0].to(at::kDouble) / flat_.size(0);
  const Tensor slope = scale * along * statistics.reciprocal;
  back_ = at::stack({slope, scale * total[0] - statistics.mean * slope}).to(at::kFloat);
  d_gain_ = along.to(at::kFloat);
  d_shift_ = total[0].to(at::kFloat);
}

void NormBack::write(std::int64_t first_row, std::int64_t rows, float* into) const {
  kernels::normalise_back({rows, channels()}, channel_row(d_flat_, first_row),
                          channel_row(flat_, first_row), how(), channel_row(back_, 0),
                          channel_row(back_, 1), into);
}

kernels::NormFactors NormBack::how() const { return norm_factors(factors_, activation_); }

}  // namespace lockstep::nn
