#include "nn/convolution.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <lockstep/error.h>
#include <lockstep/kernels/products.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace lockstep::nn {
namespace {

using kernels::NormActivation;
using kernels::NormFactors;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kChannelsLast = torch::MemoryFormat::ChannelsLast;

/// [rows, channels] of a channels-last tensor, where a row is a pixel.
Tensor pixels(const Tensor& images) {
  return images.permute({0, 2, 3, 1}).view({-1, images.size(1)});
}

Tensor like_images(const Tensor& images, std::int64_t channels) {
  return at::empty({images.size(0), channels, images.size(2), images.size(3)},
                   images.options().memory_format(kChannelsLast));
}

/// Rows in ranges that threads may share: as many as the shape says, so that threads change nothing.
class RowRanges {
 public:
  explicit RowRanges(std::int64_t rows)
      : rows_(rows), count_(std::clamp<std::int64_t>(rows / kLeast, 1, kMost)) {}
  std::int64_t count() const { return count_; }

  /// Calls action(range, first, last), for several ranges at a time.
  template <class Action>
  void run(const Action& action) const {
    at::parallel_for(0, count_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t range = begin; range < end; ++range)
        action(range, rows_ * range / count_, rows_ * (range + 1) / count_);
    });
  }

 private:
  static constexpr std::int64_t kLeast = 1024, kMost = 8;

  std::int64_t rows_, count_;
};

/// Calls action(first, count) for as many rows at a time as stay in the second cache.
template <class Action>
void for_blocks(std::int64_t first, std::int64_t last, std::int64_t row_size, const Action& action) {
  constexpr std::int64_t kNumbers = 1 << 16, kLeast = 96;
  const std::int64_t step = std::max(kNumbers / row_size, kLeast);
  for (; first < last; first += step) action(first, std::min(step, last - first));
}

/// Two numbers a channel that every range adds up for itself.
class PairSums {
 public:
  PairSums(const RowRanges& ranges, std::int64_t channels)
      : sums_(at::zeros({ranges.count(), 2, channels}, at::kDouble)) {}
  double* first(std::int64_t range) const { return at(range, 0); }
  double* second(std::int64_t range) const { return at(range, 1); }
  /// [2, channels].
  Tensor total() const { return sums_.sum(0); }

 private:
  double* at(std::int64_t range, std::int64_t which) const {
    return sums_.mutable_data_ptr<double>() + (2 * range + which) * sums_.size(2);
  }

  Tensor sums_;
};

/// What a convolution is, beside its weight.
struct Geometry {
  std::vector<std::int64_t> stride, padding;
  std::int64_t groups = 1;
  bool pointwise = false;  ///< a product with a matrix
};

Tensor matrix(const Tensor& weight) { return weight.view({weight.size(0), weight.size(1)}); }

/// The convolution of `x`; adds up the sums of its outputs and their squares.
Tensor convolve(const Tensor& x, const Tensor& weight, const Geometry& geometry,
                Tensor& moments) {
  Tensor outputs;
  if (geometry.pointwise)
    outputs = like_images(x, weight.size(0));
  else
    outputs = at::convolution(x, weight, {}, geometry.stride, geometry.padding, {1, 1}, false,
                              {0, 0}, geometry.groups)
                  .contiguous(kChannelsLast);
  const Tensor into = pixels(outputs);
  const std::int64_t channels = into.size(1);
  const RowRanges ranges(into.size(0));
  const PairSums sums(ranges, channels);
  if (geometry.pointwise) {
    const Tensor from = pixels(x);
    const kernels::PackedMatrix kernel(matrix(weight).t());
    ranges.run([&](std::int64_t range, std::int64_t first, std::int64_t last) {
      for_blocks(first, last, from.size(1) + channels, [&](std::int64_t row, std::int64_t count) {
        const Tensor block = into.narrow(0, row, count);
        kernel.product_into(from.narrow(0, row, count), block);
        kernels::add_norm_sums({count, channels}, block.const_data_ptr<float>(),
                               sums.first(range), sums.second(range));
      });
    });
  } else {
    ranges.run([&](std::int64_t range, std::int64_t first, std::int64_t last) {
      kernels::add_norm_sums({last - first, channels},
                             into.const_data_ptr<float>() + first * channels, sums.first(range),
                             sums.second(range));
    });
  }
  moments = sums.total() / static_cast<double>(into.size(0));
  return outputs;
}

struct Fused : torch::autograd::Function<Fused> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const Tensor& gain, const Tensor& bias, const Tensor& running_mean,
                        const Tensor& running_var, const Geometry& geometry, double momentum,
                        double epsilon, NormActivation activation) {
    const at::AutoDispatchBelowADInplaceOrView plain;
    Tensor moments;
    const Tensor numbers = convolve(x, weight, geometry, moments);
    const Tensor flat = pixels(numbers);
    const std::int64_t channels = flat.size(1);
    const auto rows = static_cast<double>(flat.size(0));
    const Tensor mean = moments[0], variance = (moments[1] - mean * mean).clamp_min_(0);
    running_mean.mul_(1 - momentum).add_(mean, momentum);
    running_var.mul_(1 - momentum).add_(variance, momentum * rows / (rows - 1));
    const Tensor deviation = (variance + epsilon).rsqrt_();
    const Tensor factor = deviation * gain;
    const Tensor factors = at::stack({factor, bias - mean * factor}).to(at::kFloat);

    const Tensor outputs = at::empty_like(numbers);
    RowRanges(flat.size(0)).run([&](std::int64_t, std::int64_t first, std::int64_t last) {
      kernels::normalise({last - first, channels}, flat.const_data_ptr<float>() + first * channels,
                         view(factors, activation),
                         outputs.mutable_data_ptr<float>() + first * channels);
    });
    ctx->saved_data["stride"] = geometry.stride;
    ctx->saved_data["padding"] = geometry.padding;
    ctx->saved_data["groups"] = geometry.groups;
    ctx->saved_data["pointwise"] = geometry.pointwise;
    ctx->saved_data["activation"] = static_cast<std::int64_t>(activation);
    ctx->save_for_backward({x, weight, numbers, factors, at::stack({mean, deviation})});
    return outputs;
  }

  static NormFactors view(const Tensor& factors, NormActivation activation) {
    return {.scale = factors[0].const_data_ptr<float>(),
            .shift = factors[1].const_data_ptr<float>(),
            .activation = activation};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (torch::GradMode::is_enabled())
      throw ConfigError(
          "a convolution with batch norm in one has no second derivative, which create_graph asks "
          "for: use torch::nn::Conv2d and torch::nn::BatchNorm2d there.");
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &numbers = saved[2], &factors = saved[3];
    const Tensor mean = saved[4][0], deviation = saved[4][1];
    const NormFactors how = view(
        factors, static_cast<NormActivation>(ctx->saved_data["activation"].toInt()));
    const Tensor d_outputs = grads[0].contiguous(kChannelsLast);
    const Tensor d_flat = pixels(d_outputs), flat = pixels(numbers);
    const std::int64_t rows = flat.size(0), channels = flat.size(1);
    const RowRanges ranges(rows);

    const PairSums sums(ranges, channels);
    ranges.run([&](std::int64_t range, std::int64_t first, std::int64_t last) {
      kernels::add_norm_gradient_sums({last - first, channels},
                                      d_flat.const_data_ptr<float>() + first * channels,
                                      flat.const_data_ptr<float>() + first * channels, how,
                                      sums.first(range), sums.second(range));
    });
    const Tensor total = sums.total();
    const Tensor along = (total[1] - mean * total[0]) * deviation;  // by the normalised numbers
    const Tensor factor = factors[0].to(at::kDouble) / static_cast<double>(rows);
    const Tensor slope = factor * along * deviation;
    const Tensor back = at::stack({slope, factor * total[0] - mean * slope}).to(at::kFloat);
    const auto differentiate = [&](std::int64_t first, std::int64_t count, float* into) {
      kernels::normalise_back({count, channels}, d_flat.const_data_ptr<float>() + first * channels,
                              flat.const_data_ptr<float>() + first * channels, how,
                              back[0].const_data_ptr<float>(), back[1].const_data_ptr<float>(),
                              into);
    };
    const bool need_x = ctx->needs_input_grad(0), need_weight = ctx->needs_input_grad(1);
    variable_list result(10);
    if (ctx->needs_input_grad(2)) result[2] = along.to(at::kFloat);
    if (ctx->needs_input_grad(3)) result[3] = total[0].to(at::kFloat);
    if (!need_x && !need_weight) return result;
    if (ctx->saved_data["pointwise"].toBool()) {
      if (need_x) result[0] = like_images(x, x.size(1));
      Tensor d_weight = multiply_back(x, weight, ranges, channels, result[0], need_weight,
                                      differentiate);
      if (need_weight) result[1] = d_weight.view(weight.sizes());
      return result;
    }
    const Tensor d_numbers = at::empty_like(numbers);
    ranges.run([&](std::int64_t, std::int64_t first, std::int64_t last) {
      differentiate(first, last - first, d_numbers.mutable_data_ptr<float>() + first * channels);
    });
    const auto [d_x, d_weight, d_bias] = at::convolution_backward(
        d_numbers, x, weight, {}, ctx->saved_data["stride"].toIntVector(),
        ctx->saved_data["padding"].toIntVector(), {1, 1}, false, {0, 0},
        ctx->saved_data["groups"].toInt(), {need_x, need_weight, false});
    result[0] = d_x;
    result[1] = d_weight;
    return result;
  }

  template <class Differentiate>
  static Tensor multiply_back(const Tensor& x, const Tensor& weight, const RowRanges& ranges,
                              std::int64_t channels, const Tensor& d_x, bool need_weight,
                              const Differentiate& differentiate) {
    const Tensor from = pixels(x);
    const Tensor into = d_x.defined() ? pixels(d_x) : Tensor();
    const std::int64_t inputs = from.size(1);
    const bool turned = inputs < channels;
    Tensor parts;
    if (need_weight)
      parts = turned ? at::zeros({ranges.count(), inputs, channels}, x.options())
                     : at::zeros({ranges.count(), channels, inputs}, x.options());
    const kernels::PackedMatrix kernel(matrix(weight));
    ranges.run([&](std::int64_t range, std::int64_t first, std::int64_t last) {
      Tensor room;
      for_blocks(first, last, inputs + channels, [&](std::int64_t row, std::int64_t count) {
        if (!room.defined()) room = at::empty({count, channels}, x.options());
        const Tensor block = room.narrow(0, 0, count);
        differentiate(row, count, block.mutable_data_ptr<float>());
        if (into.defined()) kernel.product_into(block, into.narrow(0, row, count));
        if (!need_weight) return;
        const Tensor some = from.narrow(0, row, count);
        if (turned)
          kernels::add_product(some.t(), block, parts[range]);
        else
          kernels::add_product(block.t(), some, parts[range]);
      });
    });
    if (!need_weight) return {};
    const Tensor sum = ranges.count() == 1 ? parts[0] : parts.sum(0);
    return turned ? sum.t().contiguous() : sum;
  }
};

}  // namespace

torch::Tensor convolve_and_norm(const Tensor& x, torch::nn::Conv2d& convolution,
                                torch::nn::BatchNorm2d& norm, NormActivation activation) {
  const auto& options = convolution->options;
  Geometry geometry{
      .stride = at::IntArrayRef(options.stride()).vec(),
      .padding = at::IntArrayRef(std::get<torch::ExpandingArray<2>>(options.padding())).vec(),
      .groups = options.groups()};
  const auto& kernel = convolution->weight;
  geometry.pointwise = kernel.size(2) == 1 && kernel.size(3) == 1 && geometry.groups == 1 &&
                       geometry.stride == std::vector<std::int64_t>{1, 1} &&
                       geometry.padding == std::vector<std::int64_t>{0, 0};
  if (norm->is_training() && x.is_cpu() && x.scalar_type() == torch::kFloat &&
      !at::autocast::is_autocast_enabled(at::kCPU)) {
    norm->num_batches_tracked.add_(1);
    return Fused::apply(x.contiguous(kChannelsLast), kernel, norm->weight, norm->bias,
                        norm->running_mean, norm->running_var, geometry,
                        *norm->options.momentum(), norm->options.eps(), activation);
  }
  Tensor y = norm(convolution(x));
  return activation == NormActivation::relu6 ? torch::relu6(y) : y;
}

}  // namespace lockstep::nn
