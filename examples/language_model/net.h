#pragma once

// A language model of characters whose state is carried from step to step (truncated
// backpropagation through time).

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "common.h"

constexpr std::int64_t kRows = 16, kLength = 32;  // of a batch

using State = std::tuple<torch::Tensor, torch::Tensor>;  // each [layers, rows, size]

struct Net : torch::nn::Module {
  static constexpr std::int64_t kLayers = 2, kSize = 64;

  Net() {
    using namespace torch::nn;
    embedding = register_module("embedding", Embedding(128, kSize));
    lstm = register_module("lstm",
                           LSTM(LSTMOptions(kSize, kSize).num_layers(kLayers).batch_first(true)));
    output = register_module("output", Linear(kSize, 128));
  }

  /// Logits for the next character at every place, and the state after the last.
  std::pair<torch::Tensor, State> forward(const torch::Tensor& characters, const State& state) {
    auto [hidden, next] = lstm(embedding(characters), state);
    return {output(hidden), next};
  }

  static State initial_state() {
    return {torch::zeros({kLayers, kRows, kSize}), torch::zeros({kLayers, kRows, kSize})};
  }

  torch::nn::Embedding embedding = nullptr;
  torch::nn::LSTM lstm = nullptr;
  torch::nn::Linear output = nullptr;
};

/// The mean over all characters. Every row has equally many, so it is the mean over rows too.
inline torch::Tensor loss_of(const torch::Tensor& logits, const torch::Tensor& target) {
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1), target.flatten());
}

/// A text in kRows long rows: row i of a batch continues row i of the batch before.
class Text {
 public:
  explicit Text(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto length = static_cast<std::int64_t>(text.size()) / kRows;
    if (length <= kLength) throw std::runtime_error(file + ": no text, or one that is too short");
    characters_ = torch::from_blob(text.data(), {kRows, length}, torch::kUInt8)
                      .to(torch::kInt64)
                      .remainder(128);
  }

  bool begins_at(std::int64_t step) const { return step % batches() == 0; }

  /// Characters, and the character that follows each of them.
  std::pair<torch::Tensor, torch::Tensor> batch_at(std::int64_t step) const {
    const std::int64_t begin = step % batches() * kLength;
    return {characters_.narrow(1, begin, kLength), characters_.narrow(1, begin + 1, kLength)};
  }

 private:
  std::int64_t batches() const { return (characters_.size(1) - 1) / kLength; }

  torch::Tensor characters_;
};
