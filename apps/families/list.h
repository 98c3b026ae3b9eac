#pragma once

// The list of all families. A new one adds its line here, and has in families/<name>/ what the
// others have there:
//
//   family.h               declares the family
//   recipe.h, recipe.cpp   its sections, kinds of data, metrics and rules; without torch
//   job.cpp                the job that it makes of a recipe, and the commands that only it has
//
// Besides, CMake knows its sources, and recipes/*.toml has its built-in recipes.

#include <tuple>

#include "families/classify/family.h"
#include "families/detect/family.h"
#include "families/seq2seq/family.h"

namespace lockstep::apps {

using Families = std::tuple<ClassifyFamily, Seq2SeqFamily, DetectFamily>;

}  // namespace lockstep::apps
