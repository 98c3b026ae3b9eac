#pragma once

// Writing texts with a model, in the way a recipe says.

#include <lockstep/nn/seq2seq.h>
#include <lockstep/text/tokens.h>

#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace lockstep::apps {

nn::Seq2SeqOptions model_options(const Recipe& recipe, std::int64_t vocabulary);

/// For each source the `best` hypotheses, best first; greedy when the beam is 1.
std::vector<std::vector<text::Hypothesis>> search(text::TokenModel& model, const DecodeRecipe& how,
                                                  int best = 1, bool keep_attention = false);

/// Sources of any length as one rectangle; targets are empty.
text::SequenceBatch source_batch(const std::vector<std::vector<std::int32_t>>& sources);

}  // namespace lockstep::apps
