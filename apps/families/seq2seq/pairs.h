#pragma once

// The pairs of texts that a recipe names: which files, and who reads them.

#include <lockstep/text/corpus.h>

#include "recipe/recipe.h"

namespace lockstep::apps {

text::CorpusPairs corpus_pairs(const Recipe& recipe);

}  // namespace lockstep::apps
