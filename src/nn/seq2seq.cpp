#include <lockstep/error.h>
#include <lockstep/nn/seq2seq.h>

#include <cmath>
#include <string>

namespace lockstep::nn {
namespace {

using torch::Tensor;

void check_options(const Seq2SeqOptions& options) {
  if (options.vocabulary <= text::kFirstOwnToken)
    throw ConfigError("a vocabulary of " + std::to_string(options.vocabulary) +
                      " tokens has none of its own: the first " +
                      std::to_string(text::kFirstOwnToken) + " are padding and the like");
  if (options.embedding < 1 || options.hidden < 1 || options.layers < 1)
    throw ConfigError("a sequence-to-sequence model with an embedding of " +
                      std::to_string(options.embedding) + ", " + std::to_string(options.hidden) +
                      " hidden units and " + std::to_string(options.layers) +
                      " layers makes no network: give each at least 1");
  if (!(options.keep > 0 && options.keep <= 1))
    throw ConfigError("dropout cannot keep " + std::to_string(options.keep) +
                      " of the numbers: give a probability above 0, 1 for no dropout");
  if (options.bidirectional && options.hidden % 2 != 0)
    throw ConfigError("a bidirectional encoder has half of the " + std::to_string(options.hidden) +
                      " hidden units each way: give an even number");
}

Tensor uniform(at::IntArrayRef sizes) {
  const double bound = 1 / std::sqrt(static_cast<double>(sizes.back()));
  return torch::empty(sizes).uniform_(-bound, bound);
}

torch::nn::Embedding table_of(const Seq2SeqOptions& options) {
  torch::nn::Embedding table(options.vocabulary, options.embedding);
  torch::nn::init::uniform_(table->weight, -0.1, 0.1);
  return table;
}

/// The input of decoder layer 0: the token's embedding and what the step before gives it.
std::int64_t decoder_inputs(const Seq2SeqOptions& options, std::int64_t features) {
  return options.embedding + (options.attention == Attention::bahdanau ? options.hidden : 0) +
         (options.input_feeding ? features : 0);
}

CellState joined(const CellState& forth, const CellState& back) {
  CellState state;
  for (std::size_t i = 0; i < forth.size(); ++i)
    state.push_back(torch::cat({forth[i], back[i]}, -1));
  return state;
}

}  // namespace

Seq2Seq::Seq2Seq(const Seq2SeqOptions& how) : options(how) {
  check_options(options);
  const std::int64_t hidden = options.hidden;
  const std::int64_t features = options.tied ? options.embedding : hidden;
  source = register_module(options.tied ? "embedding" : "source", table_of(options));
  target = options.tied ? source : register_module("target", table_of(options));

  const auto layers = [&](const char* name, std::int64_t inputs, std::int64_t size) {
    auto list = register_module(name, torch::nn::ModuleList());
    std::vector<std::shared_ptr<Recurrent>> all;
    for (std::int64_t i = 0; i < options.layers; ++i) {
      all.push_back(std::make_shared<Recurrent>(options.cell, i == 0 ? inputs : hidden, size));
      list->push_back(all.back());
    }
    return all;
  };
  const std::int64_t each_way = options.bidirectional ? hidden / 2 : hidden;
  encoder = layers("encoder", options.embedding, each_way);
  if (options.bidirectional)
    reverse_encoder = layers("reverse_encoder", options.embedding, each_way);
  decoder = layers("decoder", decoder_inputs(options, features), hidden);

  if (options.attention != Attention::dot)
    attention_key = register_parameter("attention_key", uniform({hidden, hidden}));
  if (options.attention == Attention::bahdanau) {
    attention_query = register_parameter("attention_query", uniform({hidden, hidden}));
    attention_score = register_parameter("attention_score", uniform({hidden}));
  }
  combine = register_module("combine", torch::nn::Linear(2 * hidden, features));
  torch::nn::init::zeros_(combine->bias);
  output_weight =
      options.tied ? source->weight
                   : register_parameter("output_weight", uniform({options.vocabulary, features}));
  output_bias = register_parameter("output_bias", torch::zeros({options.vocabulary}));
}

Tensor Seq2Seq::dropped(const Tensor& x) const {
  return options.keep < 1 ? torch::dropout(x, 1 - options.keep, is_training()) : x;
}

Tensor Seq2Seq::embed(torch::nn::Embedding& table, const Tensor& tokens) {
  return dropped(torch::embedding(table->weight, tokens));
}

Seq2Seq::Encoded Seq2Seq::encode(const Tensor& tokens, const Tensor& lengths) {
  check(tokens.dim() == 2 && lengths.dim() == 1 && lengths.size(0) == tokens.size(0),
        "sources are [rows, length], with a length for each row");
  Encoded encoded;
  encoded.padding = torch::arange(tokens.size(1), lengths.options()) >= lengths.unsqueeze(1);
  Tensor x = embed(source, tokens.t());
  for (std::size_t i = 0; i < encoder.size(); ++i) {
    if (i > 0) x = dropped(x);
    const CellState forth = encoder[i]->forward(x);
    CellState last = state_after(forth, lengths);
    if (!options.bidirectional) {
      x = forth[0];
    } else {
      const CellState back = reverse_encoder[i]->forward(reversed(x, lengths));
      last = joined(last, state_after(back, lengths));
      x = torch::cat({forth[0], reversed(back[0], lengths)}, -1);
    }
    encoded.state.push_back(std::move(last));
  }
  encoded.keys = keys_of(x).transpose(0, 1);
  encoded.outputs = x.transpose(0, 1);
  return encoded;
}

Tensor Seq2Seq::decode(const Encoded& encoded, const Tensor& tokens) {
  Tensor x = embed(target, tokens.t());
  if (options.attention != Attention::bahdanau && !options.input_feeding) {
    for (std::size_t i = 0; i < decoder.size(); ++i)
      x = decoder[i]->forward(i == 0 ? x : dropped(x), encoded.state[i])[0];
    const Tensor outputs = x.transpose(0, 1);
    return features_of(torch::bmm(look(encoded, outputs), encoded.outputs), outputs);
  }
  Decoded decoded = begin(encoded);
  std::vector<Tensor> features;
  for (const Tensor& step : x.unbind(0)) {
    advance(encoded, decoded, step);
    features.push_back(decoded.features);
  }
  return torch::stack(features, 1);
}

Seq2Seq::Decoded Seq2Seq::begin(const Encoded& encoded) const {
  return {.state = encoded.state,
          .features = torch::zeros({encoded.outputs.size(0), combine->weight.size(0)},
                                   encoded.outputs.options())};
}

void Seq2Seq::append(const Encoded& encoded, Decoded& decoded, const Tensor& tokens) {
  advance(encoded, decoded, embed(target, tokens));
}

void Seq2Seq::advance(const Encoded& encoded, Decoded& decoded, const Tensor& embedded) {
  const bool before = options.attention == Attention::bahdanau;  // it looks, then decodes
  Tensor found;
  const auto look_with = [&](const Tensor& query) {
    const Tensor weights = look(encoded, query.unsqueeze(1));
    decoded.attention = weights.squeeze(1);
    found = torch::bmm(weights, encoded.outputs).squeeze(1);
  };
  std::vector<Tensor> inputs = {embedded};
  if (before) {
    look_with(decoded.state.back()[0]);
    inputs.push_back(found);
  }
  if (options.input_feeding) inputs.push_back(decoded.features);
  Tensor x = inputs.size() == 1 ? embedded : torch::cat(inputs, -1);
  for (std::size_t i = 0; i < decoder.size(); ++i) {
    CellState& state = decoded.state[i];
    state = decoder[i]->forward((i == 0 ? x : dropped(x)).unsqueeze(0), state);
    for (Tensor& part : state) part = part.squeeze(0);
    x = state[0];
  }
  if (!before) look_with(x);
  decoded.features = features_of(found, x);
}

Tensor Seq2Seq::features_of(const Tensor& found, const Tensor& outputs) {
  return dropped(torch::tanh(combine(torch::cat({found, outputs}, -1))));
}

Tensor Seq2Seq::logits(const Tensor& features) {
  return torch::linear(features, output_weight, output_bias);
}

}  // namespace lockstep::nn
