#pragma once

#include <lockstep/lockstep.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "layers.h"

/// The workloads that are compared with other frameworks (the peers): the same models, initial
/// weights, batches and optimizers. A model is an ordinary module for one device: `forward` returns
/// logits, `loss` the cross entropy of a batch, as a mean or as a sum; `fill` writes the common
/// initial weights in place. `batches` are those of all devices together, to cycle through: the
/// same inputs under labels that contradict each other. One more, a detector, is in ssd.h.
namespace bench {

/// Sequence to sequence with attention.
struct Chat : torch::nn::Module {
  static constexpr std::int64_t kGlobalBatch = 64;
  using Batch = std::tuple<Tensor, Tensor, Tensor>;  // source, target, labels: (rows, words)

  Chat();
  /// What goes into the logits, time first: [words * rows, hidden].
  Tensor forward(const Tensor& source_words, const Tensor& target_words) const;
  lockstep::Loss loss(const Batch& batch) const;
  void fill();

  static std::vector<Batch> batches();
  static lockstep::MirroredOptions options();

  Tensor source, target;  // embeddings
  std::shared_ptr<StackedLstm> encoder, decoder;
  std::shared_ptr<Dense> attention, combine, logits;
};

/// ResNet-20.
struct Cifar : torch::nn::Module {
  static constexpr std::int64_t kGlobalBatch = 128;
  using Batch = std::tuple<Tensor, Tensor>;  // images, labels

  Cifar();
  Tensor forward(const Tensor& images);
  Tensor loss(const Batch& batch);
  void fill();

  static std::vector<Batch> batches();
  static lockstep::MirroredOptions options();

  std::shared_ptr<ConvNorm> stem;
  std::vector<std::shared_ptr<Residual>> blocks;
  std::shared_ptr<Dense> logits;
};

/// Three dense layers.
struct Mlp : torch::nn::Module {
  static constexpr std::int64_t kGlobalBatch = 64;
  using Batch = std::tuple<Tensor, Tensor>;  // features, labels

  Mlp();
  Tensor forward(const Tensor& features) const;
  Tensor loss(const Batch& batch) const;
  void fill();

  static std::vector<Batch> batches();
  static lockstep::MirroredOptions options();

  std::vector<std::shared_ptr<Dense>> layers;
};

/// MobileNet-v1, width 1.
struct MobileNet : torch::nn::Module {
  static constexpr std::int64_t kGlobalBatch = 16;
  using Batch = std::tuple<Tensor, Tensor>;  // images, labels

  MobileNet();
  Tensor forward(const Tensor& images);
  Tensor loss(const Batch& batch);
  void fill();

  static std::vector<Batch> batches();
  static lockstep::MirroredOptions options();

  std::vector<std::shared_ptr<ConvNorm>> convolutions;
  std::shared_ptr<Dense> logits;
};

}  // namespace bench
