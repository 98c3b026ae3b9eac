#pragma once

// The list of all families. A new one has its files in families/<name>/, and a line here.

#include <tuple>

#include "families/classify/family.h"
#include "families/seq2seq/family.h"

namespace lockstep::apps {

using Families = std::tuple<ClassifyFamily, Seq2SeqFamily>;

}  // namespace lockstep::apps
