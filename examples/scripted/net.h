#pragma once

// What both programs share. The model itself is a file that export.py writes.

#include "common.h"

using Batch = torch::data::Example<>;

inline Batch batch_at(const lockstep::vision::LabelledImages& set, std::int64_t step,
                      std::int64_t rows) {
  return {rows_at(set.images, step, rows), rows_at(set.labels, step, rows)};
}

inline torch::Tensor loss_of(const torch::Tensor& logits, const torch::Tensor& labels) {
  return torch::nn::functional::cross_entropy(logits, labels);
}
