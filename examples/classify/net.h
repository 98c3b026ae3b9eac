#pragma once

// A classifier of Fashion-MNIST, the model and the data that both programs share.

#include "common.h"

/// A small convnet for 28x28 images of 10 classes.
struct Net : torch::nn::Module {
  Net() {
    using torch::nn::Conv2dOptions;
    conv1 =
        register_module("conv1", torch::nn::Conv2d(Conv2dOptions(1, 16, 5).padding(2).stride(2)));
    conv2 =
        register_module("conv2", torch::nn::Conv2d(Conv2dOptions(16, 32, 3).padding(1).stride(2)));
    dropout = register_module("dropout", torch::nn::Dropout(0.25));
    hidden = register_module("hidden", torch::nn::Linear(32 * 7 * 7, 128));
    output = register_module("output", torch::nn::Linear(128, 10));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(conv2(torch::relu(conv1(x))));
    x = torch::relu(hidden(dropout(x.flatten(1))));
    return torch::log_softmax(output(x), 1);
  }

  torch::nn::Conv2d conv1 = nullptr, conv2 = nullptr;
  torch::nn::Dropout dropout = nullptr;
  torch::nn::Linear hidden = nullptr, output = nullptr;
};

using Batch = torch::data::Example<>;

inline Batch batch_at(const lockstep::vision::LabelledImages& set, std::int64_t step,
                      std::int64_t rows) {
  return {rows_at(set.images, step, rows), rows_at(set.labels, step, rows)};
}

inline double accuracy(const torch::Tensor& output, const torch::Tensor& labels) {
  return (output.argmax(1).cpu() == labels).to(torch::kFloat64).mean().item<double>();
}
