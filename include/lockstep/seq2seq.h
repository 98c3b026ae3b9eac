#pragma once

// An encoder and a decoder with attention: a sequence of tokens to another, for chat and
// translation.

#include <lockstep/decode.h>
#include <lockstep/loss.h>
#include <lockstep/sequence_batch.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

enum class Cell { lstm, gru };

enum class Attention {
  dot,       ///< Luong: query . key
  general,   ///< Luong: query . W key
  bahdanau,  ///< v . tanh(W query + U key) of the state before; the cell gets what it found
};

struct Seq2SeqOptions {
  std::int64_t vocabulary = 0;  ///< of both sides
  std::int64_t embedding = 256;
  std::int64_t hidden = 512;
  std::int64_t layers = 2;
  Cell cell = Cell::lstm;
  bool bidirectional = false;  ///< the encoder: half of `hidden` each way
  Attention attention = Attention::general;
  bool input_feeding = false;  ///< the cell also gets what the last step passed to the output
  double keep = 1;             ///< probability that dropout keeps a number
  bool tied = false;           ///< one table for both embeddings and the output
};

struct Seq2SeqLossOptions {
  double label_smoothing = 0;
  std::int64_t samples = 0;  ///< of a sampled softmax in training; 0: the whole vocabulary
};

/// Throws ConfigError for options that make no network.
struct Seq2Seq : torch::nn::Module {
  explicit Seq2Seq(const Seq2SeqOptions& options);

  /// The state of each layer: {hidden} or {hidden, cell}, [rows, hidden].
  using State = std::vector<std::vector<torch::Tensor>>;

  struct Memory {
    torch::Tensor outputs = {};  ///< [rows, source length, hidden]
    torch::Tensor keys = {};     ///< what queries are compared with
    torch::Tensor padding = {};  ///< bool [rows, source length]: not to be looked at
    State state = {};            ///< after the last token of each source
  };

  Memory encode(const torch::Tensor& source, const torch::Tensor& lengths);

  /// What goes into the output for each of `tokens`, int64 [rows, length], given those before it
  /// (teacher forcing): [rows, length, features].
  torch::Tensor decode(const Memory& memory, const torch::Tensor& tokens);

  torch::Tensor logits(const torch::Tensor& features);

  const Seq2SeqOptions options;
  // modules ...
};

/// The sum of the cross entropies of all real tokens of the target (kEnd too), their number as
/// weight.
Loss sequence_loss(Seq2Seq& model, const SequenceBatch& batch,
                   const Seq2SeqLossOptions& options = {});

/// To write the targets of a batch's sources: for beam_search and the others. Without gradients.
std::unique_ptr<TokenModel> writer(Seq2Seq& model, const torch::Tensor& source,
                                   const torch::Tensor& lengths);

}  // namespace lockstep
