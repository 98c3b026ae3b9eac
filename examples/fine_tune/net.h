#pragma once

// A backbone that has learnt five classes of Fashion-MNIST, and a new head for all ten.

#include "common.h"

/// A convnet with batch norm. Frozen or not, it stays in evaluation mode while it is fine-tuned:
/// its statistics are those of its first training.
struct BackboneImpl : torch::nn::Module {
  BackboneImpl() {
    using namespace torch::nn;
    layers = register_module(
        "layers", Sequential(Conv2d(Conv2dOptions(1, 16, 5).stride(2).padding(2)), BatchNorm2d(16),
                             ReLU(), Conv2d(Conv2dOptions(16, 32, 3).stride(2).padding(1)),
                             BatchNorm2d(32), ReLU(), Flatten()));
  }

  torch::Tensor forward(const torch::Tensor& images) { return layers->forward(images); }

  torch::nn::Sequential layers = nullptr;
};
TORCH_MODULE(Backbone);

struct Net : torch::nn::Module {
  explicit Net(std::int64_t classes) {
    backbone = register_module("backbone", Backbone());
    head = register_module("head", torch::nn::Linear(32 * 7 * 7, classes));
  }

  torch::Tensor forward(const torch::Tensor& images) { return head(backbone(images)); }

  Backbone backbone = nullptr;
  torch::nn::Linear head = nullptr;
};

using Batch = torch::data::Example<>;

inline Batch batch_at(const lockstep::vision::LabelledImages& set, std::int64_t step,
                      std::int64_t rows) {
  return {rows_at(set.images, step, rows), rows_at(set.labels, step, rows)};
}

inline torch::Tensor loss_of(Net& net, const Batch& batch) {
  return torch::nn::functional::cross_entropy(net.forward(batch.data), batch.target);
}
