#pragma once

// An encoder and a decoder with attention: a sequence of tokens to another, for chat and
// translation.

#include <lockstep/loss.h>
#include <lockstep/nn/recurrent.h>
#include <lockstep/text/decode.h>
#include <lockstep/text/sequence_batch.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

namespace lockstep::nn {

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

/// Padding changes nothing: neither a row's outputs nor gradients depend on how much of it there
/// is. Embeddings start uniform in +-0.1, other weights in +-1/sqrt(columns), biases at 0, but for
/// the forget gates of an LSTM: 1. Throws ConfigError for options that make no network.
struct Seq2Seq : torch::nn::Module {
  explicit Seq2Seq(const Seq2SeqOptions& options);

  /// The state of each layer, [rows, hidden].
  using LayerStates = std::vector<CellState>;

  struct Encoded {
    torch::Tensor outputs = {};  ///< [rows, source length, hidden]
    torch::Tensor keys = {};     ///< what queries are compared with
    torch::Tensor padding = {};  ///< bool [rows, source length]: not to be looked at
    LayerStates state = {};      ///< after the last token of each source

    auto tensors() { return std::tie(outputs, keys, padding, state); }
  };

  /// How far decoding has come.
  struct Decoded {
    LayerStates state = {};
    torch::Tensor features = {};   ///< [rows, features]: what went into the output
    torch::Tensor attention = {};  ///< [rows, source length]: what the last step looked at
  };

  /// Tokens int64 [rows, length], padded behind `lengths`, int64 [rows].
  Encoded encode(const torch::Tensor& source, const torch::Tensor& lengths);

  /// What goes into the output for each of `tokens`, int64 [rows, length], given those before it
  /// (teacher forcing): [rows, length, features]. All at once where nothing a step finds is needed
  /// by the next: with dot and general, without input feeding.
  torch::Tensor decode(const Encoded& encoded, const torch::Tensor& tokens);

  /// decode() one token a row at a time: int64 [rows].
  Decoded begin(const Encoded& encoded) const;
  void append(const Encoded& encoded, Decoded& decoded, const torch::Tensor& tokens);

  torch::Tensor logits(const torch::Tensor& features);

  const Seq2SeqOptions options;
  torch::nn::Embedding source = nullptr, target = nullptr;  ///< if tied one: "embedding"
  std::vector<std::shared_ptr<Recurrent>> encoder, reverse_encoder, decoder;
  torch::Tensor attention_key, attention_query, attention_score;  ///< those that the kind has
  torch::nn::Linear combine = nullptr;       ///< of what was found and the top layer's output
  torch::Tensor output_weight, output_bias;  ///< the weight if tied is the embedding's

 private:
  torch::Tensor embed(torch::nn::Embedding& table, const torch::Tensor& tokens);
  torch::Tensor dropped(const torch::Tensor& x) const;
  torch::Tensor keys_of(const torch::Tensor& outputs) const;
  torch::Tensor look(const Encoded& encoded, const torch::Tensor& queries) const;
  torch::Tensor features_of(const torch::Tensor& found, const torch::Tensor& outputs);
  void advance(const Encoded& encoded, Decoded& decoded, const torch::Tensor& embedded);
};

/// The sum of the cross entropies of all real tokens of the target (kEnd too), their number as
/// weight.
Loss sequence_loss(Seq2Seq& model, const text::SequenceBatch& batch,
                   const Seq2SeqLossOptions& options = {});

/// sequence_loss in parts, for Pipeline. Where no row has a real token, what the first two return
/// is undefined.
struct LabelledFeatures {
  torch::Tensor features;  ///< [real tokens, features]: what goes into the output
  torch::Tensor labels;    ///< int64 [real tokens]

  auto tensors() { return std::tie(features, labels); }
};
Seq2Seq::Encoded encode_part(Seq2Seq& model, const text::SequenceBatch& batch);
LabelledFeatures decode_part(Seq2Seq& model, const text::SequenceBatch& batch,
                             const Seq2Seq::Encoded& encoded);
Loss project_part(Seq2Seq& model, const LabelledFeatures& decoded,
                  const Seq2SeqLossOptions& options = {});

/// The model in the middle of decoding the targets of these sources: for text::beam_search and the
/// others. Without gradients and dropout. The model must outlive it, and not be trained meanwhile.
std::unique_ptr<text::TokenModel> token_model(Seq2Seq& model, const torch::Tensor& source,
                                              const torch::Tensor& lengths);

}  // namespace lockstep::nn
