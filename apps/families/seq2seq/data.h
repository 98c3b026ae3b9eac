#pragma once

// The pairs of texts of a recipe of the family `seq2seq`, as batches of tokens.

#include <lockstep/text/buckets.h>
#include <lockstep/text/tokens.h>

#include <memory>

#include "family_program.h"

namespace lockstep::apps {

/// The name of the tokenizer's file, in checkpoints and in the folder of a run.
inline constexpr const char* kTokensFile = "tokens.model";

struct TextData {
  std::shared_ptr<const text::Tokenizer> tokens;
  text::BucketedPairs train;
  text::BucketedPairs test;  ///< those of `train`, when nothing is held out
  text::PairFile test_pairs;
  bool held_out = false;
};

/// Reads the pairs, learns the tokens unless `files` has them, and keeps both as files in the run's
/// folder. Says what it does, and what was wrong with the data, on the error stream.
TextData text_data(const Recipe& recipe, const JobFiles& files);

}  // namespace lockstep::apps
