#pragma once

// A small net that LBFGS fits to all of its data at once.

#include "common.h"

struct Net : torch::nn::Module {
  Net() {
    using namespace torch::nn;
    layers = register_module("layers", Sequential(Linear(784, 16), Tanh(), Linear(16, 10)));
  }

  torch::Tensor forward(const torch::Tensor& images) { return layers->forward(images.flatten(1)); }

  torch::nn::Sequential layers = nullptr;
};

using Batch = torch::data::Example<>;

inline torch::Tensor loss_of(Net& net, const Batch& batch) {
  return torch::nn::functional::cross_entropy(net.forward(batch.data), batch.target);
}
