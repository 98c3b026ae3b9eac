#pragma once

// Small models of the kinds people train, written as for one device.

#include <torch/torch.h>

namespace models {

namespace nn = torch::nn;

struct Mlp : nn::Module {
  Mlp() {
    first = register_module("first", nn::Linear(12, 33));
    second = register_module("second", nn::Linear(33, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::relu(first(x))); }
  nn::Linear first = nullptr, second = nullptr;
};

/// Convolutions with batch norm: buffers of two dtypes.
struct ConvNet : nn::Module {
  ConvNet() {
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(2, 8, 3).padding(1).bias(false)));
    norm = register_module("norm", nn::BatchNorm2d(8));
    head = register_module("head", nn::Linear(8, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return head(torch::relu(norm(conv(x))).mean({2, 3}));
  }
  nn::Conv2d conv = nullptr;
  nn::BatchNorm2d norm = nullptr;
  nn::Linear head = nullptr;
};

/// A two-layer LSTM with dropout, embedding and attention over its own outputs.
struct Attention : nn::Module {
  Attention() {
    embedding = register_module("embedding", nn::Embedding(20, 12));
    lstm = register_module(
        "lstm", nn::LSTM(nn::LSTMOptions(12, 16).num_layers(2).dropout(0.3).batch_first(true)));
    dropout = register_module("dropout", nn::Dropout(0.2));
    head = register_module("head", nn::Linear(32, 20));
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    const auto memory = std::get<0>(lstm(dropout(embedding(tokens))));
    const auto scores = torch::bmm(memory, memory.transpose(1, 2)).softmax(-1);
    return head(torch::cat({torch::bmm(scores, memory), memory}, -1));
  }
  nn::Embedding embedding = nullptr;
  nn::LSTM lstm = nullptr;
  nn::Dropout dropout = nullptr;
  nn::Linear head = nullptr;
};

/// Input and output embedding are one tensor, registered twice.
struct Tied : nn::Module {
  Tied() {
    embedding = register_module("embedding", nn::Embedding(20, 12));
    output = register_parameter("output", embedding->weight);
    mix = register_module("mix", nn::Linear(12, 12));
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    return torch::matmul(torch::tanh(mix(embedding(tokens))), output.t());
  }
  nn::Embedding embedding = nullptr;
  torch::Tensor output;
  nn::Linear mix = nullptr;
};

/// Draws in every way that LibTorch has: some of its operators take a generator, some choose one.
struct Noisy : nn::Module {
  Noisy() {
    embedding = register_module("embedding", nn::Embedding(20, 16));
    output = register_module("output", nn::Linear(16, 20));
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    auto x = torch::dropout(embedding(tokens), 0.2, is_training());
    if (is_training()) x = x + 0.1 * torch::randn_like(x);
    x = torch::scaled_dot_product_attention(x, x, x, {}, is_training() ? 0.3 : 0.0);
    x = torch::alpha_dropout(x, 0.1, is_training());
    return output(torch::feature_dropout(x, 0.2, is_training()));
  }
  nn::Embedding embedding = nullptr;
  nn::Linear output = nullptr;
};

using Batch = std::pair<torch::Tensor, torch::Tensor>;

/// A batch that depends on `step` and on nothing else.
inline torch::Generator generator(int step) {
  return at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(1000 + step));
}

inline Batch vectors(int step, int rows = 16) {
  auto random = generator(step);
  return {torch::randn({rows, 12}, random), torch::randint(5, {rows}, random, torch::kInt64)};
}

inline Batch images(int step, int rows = 16) {
  auto random = generator(step);
  return {torch::randn({rows, 2, 6, 6}, random), torch::randint(5, {rows}, random, torch::kInt64)};
}

inline Batch sentences(int step, int rows = 16) {
  auto random = generator(step);
  return {torch::randint(20, {rows, 7}, random, torch::kInt64),
          torch::randint(20, {rows, 7}, random, torch::kInt64)};
}

/// The mean cross entropy over rows or tokens.
struct CrossEntropy {
  template <class Model>
  torch::Tensor operator()(Model& model, const Batch& shard) const {
    const auto output = model.forward(shard.first);
    return torch::nn::functional::cross_entropy(output.flatten(0, -2), shard.second.flatten());
  }
};

}  // namespace models
