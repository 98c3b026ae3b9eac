#include "search.h"

#include <lockstep/buckets.h>

namespace lockstep::apps {

Seq2SeqOptions model_options(const Recipe& recipe, std::int64_t vocabulary) {
  const Seq2SeqRecipe& own = recipe.seq2seq;
  const auto attention = [&] {
    switch (own.attention) {
      case AttentionName::dot:
        return Attention::dot;
      case AttentionName::general:
        return Attention::general;
      case AttentionName::bahdanau:
        return Attention::bahdanau;
    }
    return Attention::general;
  };
  return {.vocabulary = vocabulary,
          .embedding = own.embedding,
          .hidden = own.hidden,
          .layers = own.layers,
          .cell = own.cell == CellName::gru ? Cell::gru : Cell::lstm,
          .bidirectional = own.bidirectional,
          .attention = attention(),
          .input_feeding = own.input_feeding,
          .keep = own.keep,
          .tied = own.tied};
}

std::vector<std::vector<Hypothesis>> search(TokenModel& model, const DecodeRecipe& how, int best,
                                            bool keep_attention) {
  if (how.beam > 1)
    return beam_search(model, {.width = how.beam,
                               .best = best,
                               .max_length = how.max_length,
                               .length_penalty = how.length_penalty,
                               .coverage_penalty = how.coverage_penalty,
                               .keep_attention = keep_attention});
  std::vector<std::vector<Hypothesis>> result;
  for (Hypothesis& found : greedy_search(model, how.max_length, keep_attention))
    result.push_back({std::move(found)});
  return result;
}

SequenceBatch source_batch(const std::vector<std::vector<std::int32_t>>& sources) {
  std::vector<TokenPair> pairs;
  for (const auto& source : sources) pairs.push_back({source, {}});
  return padded_batch(pairs);
}

}  // namespace lockstep::apps
