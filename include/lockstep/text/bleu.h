#pragma once

// BLEU of a corpus, as sacrebleu computes it (tokenizer 13a, exponential smoothing, one reference).
//
//   BleuCounts counts;
//   for (...) counts += bleu_counts(output, reference);
//   counts.value();

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace lockstep::text {

/// What BLEU is computed from: sums, so that parts can be merged.
struct BleuCounts {
  std::array<std::int64_t, 4> matches = {};  ///< n-grams of 1 to 4 words that the reference has
  std::array<std::int64_t, 4> totals = {};   ///< n-grams of the output
  std::int64_t output_words = 0;
  std::int64_t reference_words = 0;

  BleuCounts& operator+=(const BleuCounts& other);
  auto fields() {
    return std::tie(matches, totals, output_words, reference_words);
  }  ///< see lockstep/travel.h
  /// From 0 to 100. 0 when no word matches or no output has four words.
  double value() const;
};

/// Of one sentence, UTF-8 and not tokenized. An n-gram matches at most as often as the reference
/// has it.
BleuCounts bleu_counts(std::string_view output, std::string_view reference);

/// The words of a text by the rules of mteval-v13a: four entities are put back into letters,
/// punctuation stands on its own, but for the period and comma inside a number.
std::vector<std::string> bleu_words(std::string_view text);

}  // namespace lockstep::text
