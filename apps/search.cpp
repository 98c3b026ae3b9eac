#include "search.h"

#include <lockstep/text/buckets.h>

namespace lockstep::apps {

nn::Seq2SeqOptions model_options(const Recipe& recipe, std::int64_t vocabulary) {
  const Seq2SeqRecipe& own = recipe.seq2seq;
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

std::vector<std::vector<text::Hypothesis>> search(text::TokenModel& model, const DecodeRecipe& how,
                                                  int best, bool keep_attention) {
  if (how.beam > 1)
    return text::beam_search(model, {.width = how.beam,
                                     .best = best,
                                     .max_length = how.max_length,
                                     .length_penalty = how.length_penalty,
                                     .coverage_penalty = how.coverage_penalty,
                                     .keep_attention = keep_attention});
  std::vector<std::vector<text::Hypothesis>> result;
  for (text::Hypothesis& found : text::greedy_search(model, how.max_length, keep_attention))
    result.push_back({std::move(found)});
  return result;
}

text::SequenceBatch source_batch(const std::vector<std::vector<std::int32_t>>& sources) {
  std::vector<text::TokenPair> pairs;
  for (const auto& source : sources) pairs.push_back({source, {}});
  return text::padded_batch(pairs);
}

}  // namespace lockstep::apps
