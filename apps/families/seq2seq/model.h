#pragma once

// The options of the model and of its search, as a recipe says.

#include <lockstep/nn/seq2seq.h>

#include "families/seq2seq/recipe.h"
#include "recipe/family.h"

namespace lockstep::apps {

nn::Seq2SeqOptions model_options(const NetworkRecipe& recipe, std::int64_t vocabulary);

text::BeamOptions search_options(const DecodeRecipe& recipe);

}  // namespace lockstep::apps
