#include <lockstep/error.h>
#include <lockstep/nn/projection.h>

#include <cmath>
#include <limits>
#include <string>

namespace lockstep::nn {
namespace {

using torch::Tensor;

void check_inputs(const Tensor& features, const Tensor& weight, const Tensor& bias,
                  const Tensor& labels, std::int64_t samples) {
  check(features.dim() == 2 && weight.dim() == 2 && features.size(1) == weight.size(1),
        "features are [rows, size], the weight is [vocabulary, size]");
  check(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)),
        "the bias is [vocabulary]");
  check(labels.dim() == 1 && labels.size(0) == features.size(0) &&
            labels.scalar_type() == torch::kInt64,
        "there is one label a row, int64");
  if (samples < 1)
    throw ConfigError("a sampled softmax was given " + std::to_string(samples) +
                      " samples: give at least 1");
}

/// Token k with probability log((k + 2) / (k + 1)) / log(vocabulary + 1).
Tensor draw(std::int64_t samples, std::int64_t vocabulary, torch::Device device) {
  const double range = std::log(static_cast<double>(vocabulary) + 1);
  const auto options = torch::TensorOptions().dtype(torch::kFloat64).device(device);
  const Tensor drawn = torch::rand({samples}, options).mul_(range).exp_().sub_(1);
  return drawn.to(torch::kInt64).clamp_(0, vocabulary - 1);  // to: rounds down
}

/// The logarithm of how often each of `tokens` is expected in `samples` draws.
Tensor log_expected(const Tensor& tokens, std::int64_t samples, std::int64_t vocabulary) {
  const double range = std::log(static_cast<double>(vocabulary) + 1);
  const Tensor share = tokens.to(torch::kFloat64).add_(1).reciprocal_().log1p_().div_(range);
  return share.mul_(static_cast<double>(samples)).log_();
}

}  // namespace

Tensor sampled_cross_entropy(const Tensor& features, const Tensor& weight, const Tensor& bias,
                             const Tensor& labels, std::int64_t samples) {
  check_inputs(features, weight, bias, labels, samples);
  const std::int64_t rows = features.size(0), vocabulary = weight.size(0);
  const Tensor drawn = draw(samples, vocabulary, features.device());
  // One selection of both, so that one gradient of the weight's size is made.
  const Tensor tokens = torch::cat({drawn, labels});
  const Tensor chosen = weight.index_select(0, tokens);
  const Tensor sampled = chosen.narrow(0, 0, samples), own = chosen.narrow(0, samples, rows);
  Tensor others = torch::mm(features, sampled.t());
  Tensor label = (features * own).sum(1);
  if (bias.defined()) {
    const Tensor shift = bias.index_select(0, tokens);
    others = others + shift.narrow(0, 0, samples);
    label = label + shift.narrow(0, samples, rows);
  }
  others = others - log_expected(drawn, samples, vocabulary).to(others.scalar_type());
  // The label is there already.
  others = others.masked_fill(drawn.unsqueeze(0) == labels.unsqueeze(1),
                              -std::numeric_limits<double>::infinity());
  label = label.to(torch::promoteTypes(label.scalar_type(), torch::kFloat32));
  const Tensor all = torch::cat({label.unsqueeze(1), others.to(label.scalar_type())}, 1);
  return (all.logsumexp(1) - label).sum();
}

}  // namespace lockstep::nn
