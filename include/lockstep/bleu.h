#pragma once

// BLEU of a corpus, as sacrebleu computes it (tokenizer 13a, exponential smoothing).

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// What BLEU is computed from: sums, so that parts can be merged.
struct BleuCounts {
  std::array<std::int64_t, 4> matches = {};  ///< n-grams of 1 to 4 words that the reference has
  std::array<std::int64_t, 4> totals = {};   ///< n-grams of the output
  std::int64_t output_words = 0;
  std::int64_t reference_words = 0;

  BleuCounts& operator+=(const BleuCounts& other);
  double value() const;  ///< from 0 to 100
};

BleuCounts bleu_counts(std::string_view output, std::string_view reference);

}  // namespace lockstep
