#pragma once

// The loss contract. A loss is a sum and its weight. There is one division, by the weight of the
// whole global batch, after the sum over all shards. So uneven shards, empty shards, masked tokens
// and matched anchors are exact: there is never a mean of means.

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>

namespace lockstep {

/// What a loss function returns when its loss is not a mean over rows: `sum` is a tensor with one
/// element that backward() starts from, `weight` is its divisor (real tokens, matched anchors).
///
/// It can bring more out of a step:
///
///   return Loss::mean(reconstruction + kl).metric("kl", kl).output("state", state, 1);
struct Loss {
  torch::Tensor sum = {};
  double weight = 0;

  /// The mean over the shard's rows; what a tensor that a loss function returns means.
  static Loss mean(torch::Tensor value);
  /// A sum over the shard's rows that is divided by nothing: the loss of the global batch is the
  /// sum over its shards. All shards of a step have to return one.
  static Loss total(torch::Tensor value);

  /// The divisor of the global batch is at least 1: a batch without any weight, such as one of
  /// pictures with nothing in them, is divided by 1. Without this its step is skipped.
  Loss& at_least_one();

  /// A number for the report, with one element: the mean over the shard's rows, ...
  Loss& metric(const std::string& name, const torch::Tensor& mean);
  Loss& metric(const std::string& name, double mean);
  /// ... or a sum `all` with its weight `of`. The report has the sum over all shards divided by the
  /// sum of their weights.
  Loss& metric(const std::string& name, const torch::Tensor& all, double of);
  Loss& metric(const std::string& name, double all, double of);

  /// Rows for the caller, detached and on the CPU: those of all shards, one after the other along
  /// `dim`, are in StepResult::outputs.
  Loss& output(const std::string& name, const torch::Tensor& rows, std::int64_t dim = 0);

  enum class Divisor { weight, rows, nothing };
  struct Metric {
    torch::Tensor value;
    double weight = 0;
    bool is_mean = false;  ///< else a sum
  };
  struct Output {
    torch::Tensor rows;
    std::int64_t dim = 0;
  };

  Divisor divisor = Divisor::weight;   ///< of `sum`
  bool counts_without_weight = false;  ///< set by at_least_one
  std::map<std::string, Metric> metrics = {};
  std::map<std::string, Output> outputs = {};
};

}  // namespace lockstep
