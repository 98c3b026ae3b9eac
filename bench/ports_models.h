#pragma once

// Programs that people write for one device, as models of their kind that train in about a second a
// step or less: what `ports` times. A model is an ordinary module; `loss` is the mean over a batch.

#include <lockstep/nn/script.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

namespace bench {

using torch::Tensor;
using torch::nn::Sequential;

using Batch = std::tuple<Tensor, Tensor>;  // inputs, targets: rows first

/// A line through points: nothing but the fixed cost of a step.
struct Line : torch::nn::Module {
  static Batch batch();
  Tensor loss(const Batch& batch);

  torch::nn::Linear line = register_module("line", torch::nn::Linear(1, 1));
};

/// Two layers on 13 features.
struct Regression : torch::nn::Module {
  static Batch batch();
  Tensor loss(const Batch& batch);

  torch::nn::Linear first = register_module("first", torch::nn::Linear(13, 64));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(64, 1));
};

/// Convolution, batch norm, leaky ReLU: large activations and many weights, as in YOLOv3.
struct Darknet : torch::nn::Module {
  Darknet();
  static Batch batch();
  Tensor loss(const Batch& batch);

  Sequential layers;
};

/// Two generators with instance norm and two discriminators of patches; all losses in one step.
struct CycleGan : torch::nn::Module {
  CycleGan();
  static Batch batch();  ///< pictures of both kinds
  Tensor loss(const Batch& batch);

  std::vector<Sequential> generators, discriminators;
};

/// A generator of small pictures and its discriminator; both losses in one step.
struct Dcgan : torch::nn::Module {
  Dcgan();
  static Batch batch();  ///< noise and pictures
  Tensor loss(const Batch& batch);

  Sequential generator, discriminator;
};

/// A frozen ResNet-18 in evaluation mode, and a layer that is trained.
struct Transfer : torch::nn::Module {
  Transfer();
  static Batch batch();
  Tensor loss(const Batch& batch);

  Sequential backbone;
  torch::nn::Linear head = register_module("head", torch::nn::Linear(512, 10));
};

/// The same with a backbone in TorchScript, as a program has it that loads one.
struct ScriptTransfer : torch::nn::Module {
  ScriptTransfer();
  static Batch batch() { return Transfer::batch(); }
  Tensor loss(const Batch& batch);

  torch::jit::Module backbone;
  torch::nn::Linear head = register_module("head", torch::nn::Linear(512, 10));
};

/// The same as a port has it.
struct ScriptTransferPort : torch::nn::Module {
  ScriptTransferPort();
  Tensor loss(const Batch& batch);

  std::shared_ptr<lockstep::nn::ScriptModule> backbone;
  torch::nn::Linear head = register_module("head", torch::nn::Linear(512, 10));
};

/// Words to words: embedding, LSTM, projection.
struct Language : torch::nn::Module {
  static constexpr std::int64_t kWords = 5000, kSize = 128, kHidden = 512;
  static Batch batch();
  Tensor loss(const Batch& batch);

  torch::nn::Embedding words = register_module("words", torch::nn::Embedding(kWords, kSize));
  torch::nn::LSTM lstm = register_module(
      "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(kSize, kHidden).batch_first(true)));
  torch::nn::Linear logits = register_module("logits", torch::nn::Linear(kHidden, kWords));
};

}  // namespace bench
