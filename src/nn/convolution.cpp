#include "nn/convolution.h"

#include <ATen/autocast_mode.h>
#include <lockstep/error.h>
#include <lockstep/kernels/products.h>

#include <algorithm>
#include <iterator>
#include <variant>
#include <vector>

#include "nn/norm_passes.h"

namespace lockstep::nn {
namespace {

using kernels::NormActivation;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kChannelsLast = torch::MemoryFormat::ChannelsLast;

/// A convolution without its weight.
struct ConvGeometry {
  std::vector<std::int64_t> stride, padding;
  std::int64_t groups = 1;

  /// Whether it is a product with a matrix.
  bool is_pointwise(const Tensor& weight) const {
    const auto all = [](const std::vector<std::int64_t>& values, std::int64_t value) {
      return std::count(values.begin(), values.end(), value) == std::ssize(values);
    };
    return weight.size(2) == 1 && weight.size(3) == 1 && groups == 1 && all(stride, 1) &&
           all(padding, 0);
  }
};

Tensor kernel_matrix(const Tensor& weight) { return weight.view({weight.size(0), weight.size(1)}); }

Tensor images_like(const Tensor& images, std::int64_t channels) {
  return at::empty({images.size(0), channels, images.size(2), images.size(3)},
                   images.options().memory_format(kChannelsLast));
}

struct Convolved {
  Tensor numbers;
  Tensor moments;  // means of each channel and of its squares: [2, channels], double
};

/// Each block is summed up while it is in the cache.
Convolved convolve_pointwise(const Tensor& x, const Tensor& weight) {
  const Tensor numbers = images_like(x, weight.size(0));
  const Tensor from = pixels(x), into = pixels(numbers);
  const std::int64_t channels = into.size(1);
  const RowRanges ranges(into.size(0));
  const PairSums sums(ranges, channels);
  const kernels::PackedMatrix kernel(kernel_matrix(weight).t());
  ranges.run([&](std::int64_t range, std::int64_t begin, std::int64_t rows) {
    for_row_blocks(begin, rows, from.size(1) + channels,
                   [&](std::int64_t first, std::int64_t count) {
                     const Tensor block = into.narrow(0, first, count);
                     kernel.product_into(from.narrow(0, first, count), block);
                     kernels::add_norm_sums({count, channels}, block.const_data_ptr<float>(),
                                            sums.first(range), sums.second(range));
                   });
  });
  return {numbers, sums.total().div_(into.size(0))};
}

Convolved convolve(const Tensor& x, const Tensor& weight, const ConvGeometry& geometry) {
  if (geometry.is_pointwise(weight)) return convolve_pointwise(x, weight);
  const Tensor numbers = at::convolution(x, weight, {}, geometry.stride, geometry.padding, {1, 1},
                                         false, {0, 0}, geometry.groups)
                             .contiguous(kChannelsLast);
  const Tensor flat = pixels(numbers);
  const std::int64_t channels = flat.size(1);
  const RowRanges ranges(flat.size(0));
  const PairSums sums(ranges, channels);
  ranges.run([&](std::int64_t range, std::int64_t first, std::int64_t count) {
    kernels::add_norm_sums({count, channels}, flat.const_data_ptr<float>() + first * channels,
                           sums.first(range), sums.second(range));
  });
  return {numbers, sums.total().div_(flat.size(0))};
}

struct WantedBack {
  bool x = false, weight = false;
};

struct ConvGradients {
  Tensor x, weight;
};

/// Back through a pointwise convolution. Of the gradient by its outputs there is a block at a time.
ConvGradients pointwise_back(const NormBack& norm, const Tensor& x, const Tensor& weight,
                             WantedBack wanted) {
  const Tensor from = pixels(x);
  const std::int64_t inputs = from.size(1), channels = norm.channels();
  const auto [fewer, more] = std::minmax(inputs, channels);
  const bool turned = inputs < channels;  // a product is faster with few rows and many columns
  ConvGradients result;
  Tensor d_from, parts;
  if (wanted.x) d_from = pixels(result.x = images_like(x, inputs));
  if (wanted.weight) parts = at::zeros({norm.ranges().count(), fewer, more}, x.options());
  const kernels::PackedMatrix kernel(kernel_matrix(weight));
  norm.ranges().run([&](std::int64_t range, std::int64_t begin, std::int64_t rows) {
    Tensor room;
    for_row_blocks(begin, rows, inputs + channels, [&](std::int64_t first, std::int64_t count) {
      if (!room.defined()) room = at::empty({count, channels}, x.options());
      const Tensor block = room.narrow(0, 0, count), some = from.narrow(0, first, count);
      norm.write(first, count, block.mutable_data_ptr<float>());
      if (wanted.x) kernel.product_into(block, d_from.narrow(0, first, count));
      if (wanted.weight)
        kernels::add_product(turned ? some.t() : block.t(), turned ? block : some, parts[range]);
    });
  });
  if (!wanted.weight) return result;
  const Tensor sum = parts.sum(0);
  result.weight = (turned ? sum.t() : sum).contiguous().view(weight.sizes());
  return result;
}

ConvGradients convolve_back(const NormBack& norm, const Tensor& numbers, const Tensor& x,
                            const Tensor& weight, const ConvGeometry& geometry, WantedBack wanted) {
  if (geometry.is_pointwise(weight)) return pointwise_back(norm, x, weight, wanted);
  const Tensor d_numbers = at::empty_like(numbers);
  norm.ranges().run([&](std::int64_t, std::int64_t first, std::int64_t count) {
    norm.write(first, count, d_numbers.mutable_data_ptr<float>() + first * norm.channels());
  });
  const auto [d_x, d_weight, d_bias] =
      at::convolution_backward(d_numbers, x, weight, {}, geometry.stride, geometry.padding, {1, 1},
                               false, {0, 0}, geometry.groups, {wanted.x, wanted.weight, false});
  return {d_x, d_weight};
}

/// A norm's running statistics, and how it updates them.
struct RunningNorm {
  Tensor mean, variance;
  double momentum, epsilon;

  void update(const NormStatistics& statistics, double rows) const {
    mean.mul_(1 - momentum).add_(statistics.mean, momentum);
    variance.mul_(1 - momentum).add_(statistics.variance, momentum * rows / (rows - 1));
  }
};

struct ConvolveAndNorm : torch::autograd::Function<ConvolveAndNorm> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const Tensor& gain, const Tensor& shift, const ConvGeometry& geometry,
                        const RunningNorm& running, NormActivation activation) {
    const at::AutoDispatchBelowADInplaceOrView plain;
    const auto [numbers, moments] = convolve(x, weight, geometry);
    const NormStatistics statistics = norm_statistics(moments, gain, shift, running.epsilon);
    running.update(statistics, static_cast<double>(numbers.numel() / numbers.size(1)));
    Tensor outputs = at::empty_like(numbers);
    normalise_images(numbers, statistics.factors, activation, outputs);
    ctx->saved_data["stride"] = geometry.stride;
    ctx->saved_data["padding"] = geometry.padding;
    ctx->saved_data["groups"] = geometry.groups;
    ctx->saved_data["activation"] = static_cast<std::int64_t>(activation);
    ctx->save_for_backward(
        {x, weight, numbers, statistics.mean, statistics.reciprocal, statistics.factors});
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (torch::GradMode::is_enabled())
      throw ConfigError(
          "a convolution and its norm in one have no second derivative, which create_graph asks "
          "for: use torch::nn::Conv2d and torch::nn::BatchNorm2d there.");
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &numbers = saved[2];
    const NormStatistics statistics{
        .mean = saved[3], .variance = {}, .reciprocal = saved[4], .factors = saved[5]};
    const ConvGeometry geometry{.stride = ctx->saved_data["stride"].toIntVector(),
                                .padding = ctx->saved_data["padding"].toIntVector(),
                                .groups = ctx->saved_data["groups"].toInt()};
    const Tensor d_outputs = grads[0].contiguous(kChannelsLast);
    const NormBack norm(numbers, statistics,
                        static_cast<NormActivation>(ctx->saved_data["activation"].toInt()),
                        d_outputs);
    const WantedBack wanted{ctx->needs_input_grad(0), ctx->needs_input_grad(1)};
    ConvGradients back;
    if (wanted.x || wanted.weight) back = convolve_back(norm, numbers, x, weight, geometry, wanted);
    return {back.x, back.weight, norm.d_gain(), norm.d_shift(), Tensor(), Tensor(), Tensor()};
  }
};

/// Without the batch's statistics where it has one value a channel.
Tensor norm_alone(torch::nn::BatchNorm2d& norm, const Tensor& x) {
  if (!norm->is_training() || x.numel() > x.size(1)) return norm(x);
  return torch::batch_norm(x, norm->weight, norm->bias, norm->running_mean, norm->running_var,
                           /*training=*/false, /*momentum=*/0, norm->options.eps(),
                           /*cudnn_enabled=*/true);
}

/// Numbers a channel of a convolution's output.
std::int64_t rows_after(const Tensor& x, const Tensor& weight, const ConvGeometry& geometry) {
  const auto side = [&](std::int64_t dim) {
    const auto i = static_cast<std::size_t>(dim - 2);
    return (x.size(dim) + 2 * geometry.padding[i] - weight.size(dim)) / geometry.stride[i] + 1;
  };
  return x.size(0) * side(2) * side(3);
}

/// Whether ConvolveAndNorm knows how to do that.
bool can_fuse(const Tensor& x, const torch::nn::Conv2d& convolution,
              const torch::nn::BatchNorm2d& norm) {
  const auto& conv = convolution->options;
  const auto& how = norm->options;
  const auto plain_floats = [](const Tensor& tensor) {
    return tensor.is_cpu() && tensor.scalar_type() == torch::kFloat;
  };
  return norm->is_training() && how.affine() && how.track_running_stats() && how.momentum() &&
         !convolution->bias.defined() && *conv.dilation() == *torch::ExpandingArray<2>(1) &&
         std::holds_alternative<torch::ExpandingArray<2>>(conv.padding()) &&
         std::holds_alternative<torch::enumtype::kZeros>(conv.padding_mode()) && plain_floats(x) &&
         plain_floats(convolution->weight) && x.dim() == 4 && x.numel() > 0 &&
         !at::autocast::is_autocast_enabled(at::kCPU);
}

}  // namespace

Tensor convolve_and_norm(const Tensor& x, torch::nn::Conv2d& convolution,
                         torch::nn::BatchNorm2d& norm, NormActivation activation) {
  if (can_fuse(x, convolution, norm)) {
    const auto& conv = convolution->options;
    const Tensor& weight = convolution->weight;
    const ConvGeometry geometry{
        .stride = at::IntArrayRef(conv.stride()).vec(),
        .padding = at::IntArrayRef(std::get<torch::ExpandingArray<2>>(conv.padding())).vec(),
        .groups = conv.groups()};
    if (rows_after(x, weight, geometry) > 1) {
      const RunningNorm running{norm->running_mean, norm->running_var, *norm->options.momentum(),
                                norm->options.eps()};
      norm->num_batches_tracked.add_(1);
      return ConvolveAndNorm::apply(x.contiguous(kChannelsLast), weight, norm->weight, norm->bias,
                                    geometry, running, activation);
    }
  }
  Tensor y = norm_alone(norm, convolution(x));
  if (activation == NormActivation::none) return y;
  // In place autograd would copy what was there.
  return torch::GradMode::is_enabled() ? torch::relu6(y) : torch::relu6_(y);
}

}  // namespace lockstep::nn
