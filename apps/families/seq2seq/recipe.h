#pragma once

// The sections of a recipe that belong to the family `seq2seq`.

#include <lockstep/text/corpus.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::apps {

/// Pairs of texts, and the batches made of them.
struct TextRecipe {
  std::string language = "english";  ///< by which `chatterbot` and `gettext` find their folder
  double held_out = 0;               ///< share of the sources to test on, without a test_path
  bool unique = true;                ///< a pair that comes again is left out
  bool refuse_bad = false;           ///< else pairs that are no texts are skipped
  text::TokenKind tokens = text::TokenKind::sentencepiece;
  int vocabulary = 8000;
  std::vector<std::int64_t> source_lengths = {5, 10, 20, 40};  ///< of the buckets
  std::vector<std::int64_t> target_lengths = {10, 15, 25, 50};
  int quantiles = 0;              ///< buckets by the data in place of those
  bool cut = false;               ///< pairs too long for all buckets; else they are left out
  std::int64_t batch_tokens = 0;  ///< 0: data.batch pairs
};

enum class CellName { lstm, gru };
enum class AttentionName { dot, general, bahdanau };

struct NetworkRecipe {
  int layers = 2;
  int hidden = 512;
  int embedding = 256;
  CellName cell = CellName::lstm;
  bool bidirectional = false;
  AttentionName attention = AttentionName::general;
  bool input_feeding = false;
  double keep = 1;  ///< 1: no dropout
  bool tied = false;
  double label_smoothing = 0;
  int samples = 0;  ///< 0: no sampled softmax
};

struct DecodeRecipe {
  int beam = 1;  ///< 1: greedy
  int max_length = 50;
  double length_penalty = 0.6;
  double coverage_penalty = 0;
  int tested = 500;  ///< texts decoded when evaluating
};

struct Seq2SeqRecipe {
  // Of the section data:
  std::string test_path;
  std::string target_path;  ///< of `parallel`
  std::string test_target_path;

  TextRecipe text;
  NetworkRecipe network;  ///< the section seq2seq
  DecodeRecipe decode;
};

}  // namespace lockstep::apps
