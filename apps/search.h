#pragma once

// Writing texts with a model, in the way a recipe says.

#include <lockstep/seq2seq.h>
#include <lockstep/tokens.h>

#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace lockstep::apps {

Seq2SeqOptions model_options(const Recipe& recipe, std::int64_t vocabulary);

/// For each source the `best` hypotheses, best first; greedy when the beam is 1.
std::vector<std::vector<Hypothesis>> search(TokenModel& model, const DecodeRecipe& how,
                                            int best = 1, bool keep_attention = false);

/// Sources of any length as one rectangle; targets are empty.
SequenceBatch source_batch(const std::vector<std::vector<std::int32_t>>& sources);

}  // namespace lockstep::apps
