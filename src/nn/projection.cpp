#include <ATen/autocast_mode.h>
#include <lockstep/error.h>
#include <lockstep/nn/projection.h>

#include <algorithm>
#include <optional>
#include <string>

#include <lockstep/kernels/projection.h>

namespace lockstep::nn {
namespace {

using kernels::ProjectionInputs;
using kernels::ProjectionLoss;
using kernels::WantedGradients;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Logits of a chunk by default, measured with 640 rows of 512 and 20000 classes on one core: see
// docs/performance.md. A product of fewer rows spends too long on the weight alone.
constexpr std::int64_t kChunkBytes = std::int64_t{32} << 20, kFewestRows = 128;

void check_inputs(const ProjectionInputs& in, const ProjectionLossOptions& options) {
  check(in.features.dim() == 2 && in.weight.dim() == 2 && in.features.size(1) == in.weight.size(1),
        "features are [rows, size], the weight is [vocabulary, size]");
  check(!in.bias.defined() || (in.bias.dim() == 1 && in.bias.size(0) == in.weight.size(0)),
        "the bias is [vocabulary]");
  check(in.labels.dim() == 1 && in.labels.size(0) == in.features.size(0) &&
            in.labels.scalar_type() == torch::kInt64,
        "there is one label a row, int64");
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    throw ConfigError("label smoothing is " + std::to_string(options.label_smoothing) +
                      ": give a number from 0 to 1");
  if (options.chunk_rows < 0)
    throw ConfigError("a chunk has " + std::to_string(options.chunk_rows) +
                      " rows: give 0 for a good number, or more");
  // Elsewhere looking at them would wait for the device, which checks them itself.
  if (!in.labels.is_cpu() || in.labels.numel() == 0) return;
  const auto [least, most] = in.labels.aminmax();
  const std::int64_t vocabulary = in.weight.size(0);
  const auto low = least.item<std::int64_t>(), high = most.item<std::int64_t>();
  if (low < 0 || high >= vocabulary)
    throw ConfigError("label " + std::to_string(low < 0 ? low : high) +
                      " is not in the vocabulary of " + std::to_string(vocabulary) +
                      " tokens: give the model the vocabulary of its data");
}

/// Rows of a chunk: as many as asked for or a little fewer, so that all chunks are about as large.
std::int64_t chunk_rows(const ProjectionInputs& in, std::int64_t most) {
  const std::int64_t rows = in.features.size(0), vocabulary = in.weight.size(0);
  if (most == 0) {
    const auto row_bytes =
        static_cast<std::int64_t>(sizeof(float)) * std::max<std::int64_t>(vocabulary, 1);
    most = std::max(kFewestRows, kChunkBytes / row_bytes);
  }
  const std::int64_t chunks = std::max<std::int64_t>((rows + most - 1) / most, 1);
  return (rows + chunks - 1) / chunks;
}

/// What the products are made in. Half precision would lose small gradients, which no loss scale
/// has reached yet: it counts as single.
torch::ScalarType product_type(const ProjectionInputs& in) {
  const auto device = in.features.device().type();
  if (at::autocast::is_autocast_enabled(device) &&
      at::autocast::get_autocast_dtype(device) == torch::kBFloat16)
    return torch::kBFloat16;
  const auto type = c10::promoteTypes(in.features.scalar_type(), in.weight.scalar_type());
  return type == torch::kHalf ? torch::kFloat32 : type;
}

/// In ATen's words, for all devices and types.
class Pass {
 public:
  Pass(const ProjectionInputs& in, WantedGradients wanted, torch::ScalarType type)
      : in_(in),
        wanted_(wanted),
        type_(type),
        wide_(type_ == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32),
        features_(in.features.to(type_)),
        weight_(in.weight.to(type_)),
        bias_(in.bias.defined() ? in.bias.to(wide_) : Tensor()),
        losses_(torch::empty({features_.size(0)}, features_.options().dtype(wide_))) {
    if (wanted_.features) d_features_ = torch::empty(features_.sizes(), features_.options());
    if (wanted_.weight) d_weight_ = torch::zeros(weight_.sizes(), losses_.options());
    if (wanted_.bias) d_bias_ = torch::zeros(bias_.sizes(), losses_.options());
  }

  ProjectionLoss run() {
    const std::int64_t rows = features_.size(0);
    for (std::int64_t first = 0; first < rows; first += in_.chunk_rows)
      chunk(first, std::min(in_.chunk_rows, rows - first));
    // Those of half precision stay single until a loss scale has reached them; autograd casts then.
    const auto like = [](const Tensor& made, const Tensor& input) {
      const bool stays = !made.defined() || input.scalar_type() == torch::kHalf;
      return stays ? made : made.to(input.scalar_type());
    };
    return {losses_.sum(), like(d_features_, in_.features), like(d_weight_, in_.weight),
            like(d_bias_, in_.bias)};
  }

 private:
  void chunk(std::int64_t first, std::int64_t rows) {
    const Tensor features = features_.narrow(0, first, rows);
    const Tensor labels = in_.labels.narrow(0, first, rows).unsqueeze(1);
    Tensor logits = features.mm(weight_.t()).to(wide_);
    if (bias_.defined()) logits.add_(bias_);
    const Tensor log_sum = logits.logsumexp(1, /*keepdim=*/true);
    Tensor losses = log_sum - (1 - in_.smoothing) * logits.gather(1, labels);
    if (in_.smoothing > 0) losses.sub_(logits.mean(1, /*keepdim=*/true), in_.smoothing);
    losses_.narrow(0, first, rows).copy_(losses.squeeze(1));
    if (!wanted_.any()) return;
    logits.sub_(log_sum).exp_();
    if (in_.smoothing > 0) logits.sub_(in_.smoothing / static_cast<double>(logits.size(1)));
    logits.scatter_add_(1, labels, torch::full_like(log_sum, in_.smoothing - 1));
    if (wanted_.bias) d_bias_.add_(logits.sum(0));
    logits = logits.to(type_);
    if (wanted_.features) d_features_.narrow(0, first, rows).copy_(logits.mm(weight_));
    if (wanted_.weight) d_weight_.add_(logits.t().mm(features));
  }

  const ProjectionInputs& in_;
  const WantedGradients wanted_;
  const torch::ScalarType type_, wide_;  // of the products, of the softmax
  const Tensor features_, weight_, bias_, losses_;
  Tensor d_features_, d_weight_, d_bias_;
};

ProjectionLoss compute(const ProjectionInputs& in, WantedGradients wanted) {
  const torch::NoGradGuard no_gradients;
  const torch::ScalarType type = product_type(in);
  // The types are chosen: autocast is not to choose again.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      at::autocast::get_autocast_dispatch_key_from_device_type(in.features.device().type()));
  const auto is_float = [](const Tensor& tensor) {
    return !tensor.defined() || tensor.scalar_type() == torch::kFloat32;
  };
  const bool floats =
      type == torch::kFloat32 && is_float(in.features) && is_float(in.weight) && is_float(in.bias);
  if (floats && in.features.is_cpu()) return kernels::projection_cross_entropy(in, wanted);
  return Pass(in, wanted, type).run();
}

struct ProjectionCrossEntropy : torch::autograd::Function<ProjectionCrossEntropy> {
  /// The tensors of `in` again: autograd finds those that are arguments.
  static Tensor forward(AutogradContext* context, const Tensor& /*features*/,
                        const Tensor& /*weight*/, const std::optional<Tensor>& /*bias*/,
                        const ProjectionInputs& in, WantedGradients wanted) {
    const ProjectionLoss result = compute(in, wanted);
    context->save_for_backward({result.features, result.weight, result.bias});
    return result.loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& incoming) {
    if (torch::GradMode::is_enabled())
      throw ConfigError(
          "projection_cross_entropy has no second derivative, which create_graph asks for: use "
          "torch::nn::functional::cross_entropy(torch::linear(features, weight, bias), labels) "
          "there.");
    variable_list gradients = context->get_saved_variables();
    const Tensor& factor = incoming.at(0);
    if (!factor.is_cpu() || factor.item<double>() != 1)
      for (Tensor& gradient : gradients)
        if (gradient.defined()) gradient = gradient * factor.to(gradient.scalar_type());
    gradients.resize(5);  // nothing for what is no tensor
    return gradients;
  }
};

}  // namespace

Tensor projection_cross_entropy(const Tensor& features, const Tensor& weight, const Tensor& bias,
                                const Tensor& labels, const ProjectionLossOptions& options) {
  ProjectionInputs in{features, weight, bias, labels, options.label_smoothing};
  check_inputs(in, options);
  in.chunk_rows = chunk_rows(in, options.chunk_rows);
  const auto differentiable = [](const Tensor& tensor) {
    return tensor.defined() && tensor.requires_grad() && torch::GradMode::is_enabled();
  };
  const WantedGradients wanted{differentiable(features), differentiable(weight),
                               differentiable(bias)};
  if (!wanted.any()) return compute(in, wanted).loss;
  // Autograd takes no undefined tensor for an input.
  const auto maybe_bias = bias.defined() ? std::optional<Tensor>(bias) : std::nullopt;
  return ProjectionCrossEntropy::apply(features, weight, maybe_bias, in, wanted);
}

}  // namespace lockstep::nn
