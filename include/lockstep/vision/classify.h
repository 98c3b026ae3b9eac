#pragma once

// Loss and evaluation of classifiers: what Mirrored::step and Mirrored::evaluate are given.
//
//   towers.step(batch, [](auto& net, const auto& shard) {
//     return lockstep::vision::cross_entropy(net.forward(shard.data), shard.target);
//   });
//   auto result = towers.evaluate(test, [](auto& net, const auto& batch) {
//     return lockstep::vision::classify(net.forward(batch.data), batch.target);
//   });

#include <lockstep/image.h>
#include <lockstep/loss.h>
#include <lockstep/metrics.h>
#include <torch/torch.h>

#include <string>
#include <tuple>
#include <vector>

namespace lockstep::vision {

/// The cross entropy of logits [rows, classes] and labels int64 [rows], summed over rows; its
/// weight is the rows. `label_smoothing` is the part of a label that goes to all classes evenly.
Loss cross_entropy(const torch::Tensor& logits, const torch::Tensor& labels,
                   double label_smoothing = 0);

/// How well some rows were classified. Parts merged with += equal the whole.
struct Classification {
  Metrics metrics;          ///< "loss", "accuracy"; and "top5" when there are more than ten classes
  torch::Tensor confusion;  ///< int64 [label, prediction] on the CPU; undefined before any rows

  /// Throws ConfigError when the numbers of classes differ.
  Classification& operator+=(const Classification& other);
  auto fields() { return std::tie(metrics, confusion); }  ///< see lockstep/travel.h
};

Classification classify(const torch::Tensor& logits, const torch::Tensor& labels);

/// The confusion matrix as a picture: a row for each label, a column for each prediction, in
/// percent of the row's rows; what is right in blue, what is wrong in red. Numbers are written into
/// cells for at most 20 classes. `classes` are their names; without any they are numbered.
Image confusion_picture(const Classification& result, const std::vector<std::string>& classes = {});

}  // namespace lockstep::vision
