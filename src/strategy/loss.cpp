#include <lockstep/batch.h>
#include <lockstep/detail/shards.h>
#include <lockstep/error.h>
#include <lockstep/loss.h>

#include <limits>

namespace lockstep {

Loss Loss::mean(torch::Tensor value) { return {.sum = std::move(value), .divisor = Divisor::rows}; }

Loss Loss::total(torch::Tensor value) {
  return {.sum = std::move(value), .divisor = Divisor::nothing};
}

Loss& Loss::at_least_one() {
  counts_without_weight = true;
  return *this;
}

Loss& Loss::metric(const std::string& name, const torch::Tensor& mean) {
  metrics[name] = {.value = mean.detach(), .is_mean = true};
  return *this;
}

Loss& Loss::metric(const std::string& name, double mean) {
  return metric(name,
                torch::scalar_tensor(mean, torch::dtype(torch::kFloat64).device(torch::kCPU)));
}

Loss& Loss::metric(const std::string& name, const torch::Tensor& all, double of) {
  metrics[name] = {.value = all.detach(), .weight = of};
  return *this;
}

Loss& Loss::metric(const std::string& name, double all, double of) {
  return metric(name, torch::scalar_tensor(all, torch::dtype(torch::kFloat64).device(torch::kCPU)),
                of);
}

Loss& Loss::output(const std::string& name, const torch::Tensor& rows, std::int64_t dim) {
  outputs[name] = {rows.detach(), dim};
  return *this;
}

namespace detail {
namespace {

void check_weight(double weight, const std::string& of) {
  if (!(weight >= 0 && weight <= std::numeric_limits<double>::max()))
    throw ConfigError("the weight of " + of + " is " + std::to_string(weight) +
                      "; it must be 0 or more.");
}

/// The rows of a shard, for a mean over them.
double known(std::int64_t rows, const std::string& what) {
  if (rows == batch::kUnknownRows)
    throw ConfigError(what +
                      " is a mean, but the batch type does not tell its rows; give it rows(), or "
                      "return a sum and its weight.");
  return static_cast<double>(rows);
}

}  // namespace

Loss as_loss(Loss loss, std::int64_t rows) {
  if (!loss.sum.defined() || loss.sum.numel() != 1)
    throw ConfigError(
        "the loss must be a tensor with one element: a mean over the shard's rows, or "
        "the sum in Loss{sum, weight}.");
  if (loss.divisor == Loss::Divisor::rows) {
    loss.weight = known(rows, "the loss");
    // A 16-bit mean times the rows might overflow.
    const auto dtype = loss.sum.scalar_type();
    const bool narrow = dtype == torch::kHalf || dtype == torch::kBFloat16;
    loss.sum = (narrow ? loss.sum.to(torch::kFloat32) : loss.sum) * rows;
    loss.divisor = Loss::Divisor::weight;
  }
  check_weight(loss.weight, "a loss");
  const bool counts = loss.weight > 0 || loss.divisor == Loss::Divisor::nothing;
  if (counts && !loss.sum.requires_grad())
    throw ConfigError("the loss does not depend on any trainable parameter.");
  for (auto& [name, metric] : loss.metrics) {
    if (!metric.value.defined() || metric.value.numel() != 1)
      throw ConfigError("metric '" + name + "' of the loss must be a tensor with one element.");
    if (metric.is_mean) metric.weight = known(rows, "metric '" + name + "' of the loss");
    check_weight(metric.weight, "metric '" + name + "'");
  }
  for (const auto& [name, output] : loss.outputs)
    if (!output.rows.defined() || output.dim < 0 || output.dim >= output.rows.dim())
      throw ConfigError("output '" + name + "' of the loss has no dimension " +
                        std::to_string(output.dim) + "; give it one with a row for each row.");
  return loss;
}

}  // namespace detail

}  // namespace lockstep
