#include "workloads.h"

#include <lockstep/nn/projection.h>

#include <array>
#include <cstddef>
#include <string>

#include "inputs.h"

namespace bench {
namespace {

constexpr std::int64_t kVocabulary = 20000, kLength = 20, kEmbedding = 256, kHidden = 512;
constexpr std::array<std::int64_t, 4> kMlpSizes = {1024, 4096, 4096, 1000};
constexpr std::int64_t kCifarSize = 32, kCifarClasses = 10, kCifarStem = 16, kStageBlocks = 3;
constexpr std::array<std::int64_t, 3> kStageWidths = {16, 32, 64};
constexpr std::int64_t kMobileSize = 128, kMobileClasses = 2, kMobileStem = 32;

// MobileNet's depthwise-separable blocks.
constexpr std::array<std::int64_t, 13> kBlockWidths = {64,  128, 128, 256, 256,  512, 512,
                                                       512, 512, 512, 512, 1024, 1024};
constexpr std::array<std::int64_t, 13> kBlockStrides = {1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1};

/// Pairs of the same inputs of `shape`, rows first, with changing labels.
std::vector<std::tuple<Tensor, Tensor>> labelled_batches(at::IntArrayRef shape,
                                                         std::int64_t classes) {
  NumpyRandom random(0);
  const Tensor inputs = random_inputs(random, shape);
  Tensor labels = random_integers(random, classes, {kLabelings, shape.front()});
  std::vector<std::tuple<Tensor, Tensor>> batches;
  for (const Tensor& labeling : labels.unbind()) batches.emplace_back(inputs, labeling);
  return batches;
}

Tensor pooled(const Tensor& images) {
  return torch::adaptive_avg_pool2d(images, {1, 1}).flatten(1);
}

}  // namespace

Chat::Chat()
    : source(register_parameter("source", torch::empty({kVocabulary, kEmbedding}))),
      target(register_parameter("target", torch::empty({kVocabulary, kEmbedding}))),
      encoder(register_module("encoder", std::make_shared<StackedLstm>(kEmbedding, kHidden, 2))),
      decoder(register_module("decoder", std::make_shared<StackedLstm>(kEmbedding, kHidden, 2))),
      attention(register_module("attention", std::make_shared<Dense>(kHidden, kHidden, false))),
      combine(register_module("combine", std::make_shared<Dense>(2 * kHidden, kHidden))),
      logits(register_module("logits", std::make_shared<Dense>(kHidden, kVocabulary))) {}

Tensor Chat::forward(const Tensor& source_words, const Tensor& target_words) const {
  // Time first, as the recurrent layers have it.
  const StackedLstm::States encoded = encoder->forward(torch::embedding(source, source_words.t()));
  StackedLstm::States last;
  for (const lockstep::nn::CellState& states : encoded)
    last.push_back({states[0].select(0, kLength - 1), states[1].select(0, kLength - 1)});
  const Tensor output =
      decoder->forward(torch::embedding(target, target_words.t()), last).back().front();
  const Tensor memory = encoded.back().front().transpose(0, 1);
  const Tensor queries = attention->forward(output).transpose(0, 1);
  const Tensor scores = torch::bmm(queries, memory.transpose(1, 2));
  const Tensor context = torch::bmm(scores.softmax(-1), memory);
  const Tensor mixed = torch::cat({context.transpose(0, 1), output}, -1);
  return combine->forward(mixed.flatten(0, 1)).tanh();
}

lockstep::Loss Chat::loss(const Batch& batch) const {
  const auto& [source_words, target_words, labels] = batch;
  const Tensor sum = lockstep::nn::projection_cross_entropy(
      forward(source_words, target_words), logits->kernel, logits->bias, labels.t().flatten());
  return {sum, static_cast<double>(labels.numel())};
}

void Chat::fill() {
  InitialWeights initial;
  initial.draw_table(source);
  initial.draw_table(target);
  encoder->fill(initial);
  decoder->fill(initial);
  for (const auto& layer : {attention, combine, logits}) initial.draw_kernel(layer->kernel);
}

std::vector<Chat::Batch> Chat::batches() {
  NumpyRandom random(0);
  Tensor inputs = random_integers(random, kVocabulary, {2, kGlobalBatch, kLength});
  Tensor labels = random_integers(random, kVocabulary, {kLabelings, kGlobalBatch, kLength});
  std::vector<Batch> result;
  for (const Tensor& labeling : labels.unbind())
    result.emplace_back(inputs[0], inputs[1], labeling);
  return result;
}

lockstep::MirroredOptions Chat::options() {
  lockstep::MirroredOptions result;
  result.method.optimizer = lockstep::Adam{.lr = 1e-3};
  result.method.clip.global_norm = 5;
  return result;
}

Cifar::Cifar()
    : stem(register_module("stem", std::make_shared<ConvNorm>(ConvShape{3, kCifarStem, 3}))) {
  std::int64_t channels = kCifarStem;
  for (std::int64_t width : kStageWidths) {
    for (std::int64_t block = 0; block < kStageBlocks; ++block) {
      const std::int64_t stride = channels == width ? 1 : 2;
      blocks.push_back(register_module("block" + std::to_string(blocks.size()),
                                       std::make_shared<Residual>(channels, width, stride)));
      channels = width;
    }
  }
  logits = register_module("logits", std::make_shared<Dense>(channels, kCifarClasses));
}

Tensor Cifar::forward(const Tensor& images) {
  Tensor x = stem->forward(images).relu_();
  for (const auto& block : blocks) x = block->forward(x);
  return logits->forward(pooled(x));
}

Tensor Cifar::loss(const Batch& batch) {
  const auto& [images, labels] = batch;
  return torch::cross_entropy_loss(forward(images), labels);
}

void Cifar::fill() {
  InitialWeights initial;
  initial.draw_kernel(stem->kernel);
  for (const auto& block : blocks) block->fill(initial);
  initial.draw_kernel(logits->kernel);
}

std::vector<Cifar::Batch> Cifar::batches() {
  return labelled_batches({kGlobalBatch, kCifarSize, kCifarSize, 3}, kCifarClasses);
}

lockstep::MirroredOptions Cifar::options() {
  lockstep::MirroredOptions result;
  result.method.optimizer = lockstep::Sgd{.lr = 0.1, .momentum = 0.9};
  return result;
}

Mlp::Mlp() {
  for (std::size_t index = 0; index + 1 < kMlpSizes.size(); ++index) {
    layers.push_back(
        register_module("dense" + std::to_string(index),
                        std::make_shared<Dense>(kMlpSizes[index], kMlpSizes[index + 1])));
  }
}

Tensor Mlp::forward(const Tensor& features) const {
  Tensor x = layers.front()->forward(features);
  for (std::size_t index = 1; index < layers.size(); ++index) x = layers[index]->forward(x.relu());
  return x;
}

Tensor Mlp::loss(const Batch& batch) const {
  const auto& [features, labels] = batch;
  return torch::cross_entropy_loss(forward(features), labels);
}

void Mlp::fill() {
  InitialWeights initial;
  for (const auto& layer : layers) initial.draw_kernel(layer->kernel);
}

std::vector<Mlp::Batch> Mlp::batches() {
  return labelled_batches({kGlobalBatch, kMlpSizes.front()}, kMlpSizes.back());
}

lockstep::MirroredOptions Mlp::options() {
  lockstep::MirroredOptions result;
  result.method.optimizer = lockstep::Adam{.lr = 1e-3};
  return result;
}

MobileNet::MobileNet() {
  auto add = [&](const ConvShape& shape) {
    convolutions.push_back(register_module("conv" + std::to_string(convolutions.size()),
                                           std::make_shared<ConvNorm>(shape)));
  };
  add({3, kMobileStem, 3, 2});
  std::int64_t channels = kMobileStem;
  for (std::size_t block = 0; block < kBlockWidths.size(); ++block) {
    add({channels, channels, 3, kBlockStrides[block], channels});
    add({channels, kBlockWidths[block], 1});
    channels = kBlockWidths[block];
  }
  logits = register_module("logits", std::make_shared<Dense>(channels, kMobileClasses));
}

Tensor MobileNet::forward(const Tensor& images) {
  Tensor x = images;
  for (const auto& convolution : convolutions) {
    x = convolution->forward(x);
    torch::relu6_(x);
  }
  return logits->forward(pooled(x));
}

Tensor MobileNet::loss(const Batch& batch) {
  const auto& [images, labels] = batch;
  return torch::cross_entropy_loss(forward(images), labels);
}

void MobileNet::fill() {
  InitialWeights initial;
  for (const auto& convolution : convolutions) initial.draw_kernel(convolution->kernel);
  initial.draw_kernel(logits->kernel);
}

std::vector<MobileNet::Batch> MobileNet::batches() {
  return labelled_batches({kGlobalBatch, kMobileSize, kMobileSize, 3}, kMobileClasses);
}

lockstep::MirroredOptions MobileNet::options() {
  lockstep::MirroredOptions result;
  result.method.optimizer =
      lockstep::RmsProp{.lr = 0.004, .decay = 0.9, .epsilon = 1.0, .momentum = 0.9};
  return result;
}

}  // namespace bench
