#include "families/seq2seq/model.h"

namespace lockstep::apps {

nn::Seq2SeqOptions model_options(const NetworkRecipe& own, std::int64_t vocabulary) {
  const auto attention = [&] {
    switch (own.attention) {
      case AttentionName::dot:
        return nn::Attention::dot;
      case AttentionName::general:
        return nn::Attention::general;
      case AttentionName::bahdanau:
        return nn::Attention::bahdanau;
    }
    return nn::Attention::general;
  };
  return {.vocabulary = vocabulary,
          .embedding = own.embedding,
          .hidden = own.hidden,
          .layers = own.layers,
          .cell = own.cell == CellName::gru ? nn::Cell::gru : nn::Cell::lstm,
          .bidirectional = own.bidirectional,
          .attention = attention(),
          .input_feeding = own.input_feeding,
          .keep = own.keep,
          .tied = own.tied};
}

text::BeamOptions search_options(const DecodeRecipe& recipe) {
  return {.width = recipe.beam,
          .max_length = recipe.max_length,
          .length_penalty = recipe.length_penalty,
          .coverage_penalty = recipe.coverage_penalty};
}

}  // namespace lockstep::apps
