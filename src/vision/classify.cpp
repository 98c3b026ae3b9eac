#include <lockstep/error.h>
#include <lockstep/vision/classify.h>

namespace lockstep::vision {
namespace {

namespace functional = torch::nn::functional;

void check_shapes(const torch::Tensor& logits, const torch::Tensor& labels) {
  check(logits.dim() == 2, "logits are [rows, classes]");
  check(labels.dim() == 1 && labels.size(0) == logits.size(0), "there is one label a row");
}

double count(const torch::Tensor& hits) { return hits.sum().item<double>(); }

}  // namespace

Loss cross_entropy(const torch::Tensor& logits, const torch::Tensor& labels,
                   double label_smoothing) {
  check_shapes(logits, labels);
  const auto how =
      functional::CrossEntropyFuncOptions().reduction(torch::kSum).label_smoothing(label_smoothing);
  return {functional::cross_entropy(logits, labels, how), static_cast<double>(labels.size(0))};
}

Classification& Classification::operator+=(const Classification& other) {
  if (confusion.defined() && other.confusion.defined() &&
      confusion.sizes() != other.confusion.sizes())
    throw ConfigError("results of " + std::to_string(confusion.size(0)) + " and of " +
                      std::to_string(other.confusion.size(0)) +
                      " classes cannot be merged: evaluate with one model");
  metrics += other.metrics;
  if (!confusion.defined())
    confusion = other.confusion;
  else if (other.confusion.defined())
    confusion = confusion + other.confusion;  // not in place: copies share it
  return *this;
}

Classification classify(const torch::Tensor& logits, const torch::Tensor& labels) {
  constexpr std::int64_t kTop = 5, kFewClasses = 10;
  check_shapes(logits, labels);
  const torch::NoGradGuard no_gradients;
  // Double, so that how rows were batched hardly shows in the sum.
  const torch::Tensor scores = logits.to(torch::kCPU, torch::kFloat64);
  const torch::Tensor truth = labels.to(torch::kCPU);
  const torch::Tensor prediction = scores.argmax(1);
  const std::int64_t classes = scores.size(1);
  const auto rows = static_cast<double>(truth.size(0));
  const Loss loss = cross_entropy(scores, truth);
  Classification result;
  result.metrics["loss"] = {loss.sum.item<double>(), rows};
  result.metrics["accuracy"] = {count(prediction == truth), rows};
  if (classes > kFewClasses) {
    const torch::Tensor best = std::get<1>(scores.topk(kTop, 1));
    result.metrics["top5"] = {count(best == truth.unsqueeze(1)), rows};
  }
  result.confusion =
      torch::bincount(truth * classes + prediction, {}, classes * classes).view({classes, classes});
  return result;
}

}  // namespace lockstep::vision
