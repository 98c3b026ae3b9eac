#include <lockstep/text/bleu.h>

#include <cmath>
#include <unordered_map>

namespace lockstep::text {
namespace {

/// Gives equal n-grams equal numbers.
class Grams {
 public:
  /// Of the n-gram that is `beginning`, the number of one shorter, and then `word`.
  std::uint32_t number(std::uint32_t beginning, std::uint32_t word) {
    const std::uint64_t key = std::uint64_t{beginning} << 32U | word;
    return numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
};

using Numbers = std::vector<std::uint32_t>;

Numbers numbered(const std::vector<std::string>& words,
                 std::unordered_map<std::string_view, std::uint32_t>& known) {
  Numbers numbers;
  for (const std::string& word : words)
    numbers.push_back(
        known.try_emplace(word, static_cast<std::uint32_t>(known.size())).first->second);
  return numbers;
}

/// From the n-grams that start at each word to those one longer. `order`: of the longer ones.
void lengthen(Numbers& grams, const Numbers& words, std::size_t order, Grams& known) {
  grams.resize(words.size() < order ? 0 : words.size() - order + 1);
  for (std::size_t i = 0; i < grams.size(); ++i)
    grams[i] = known.number(grams[i], words[i + order - 1]);
}

std::int64_t clipped_matches(const Numbers& output, const Numbers& reference) {
  std::unordered_map<std::uint32_t, std::int64_t> left;
  for (const std::uint32_t gram : reference) ++left[gram];
  std::int64_t matches = 0;
  for (const std::uint32_t gram : output) {
    const auto found = left.find(gram);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++matches;
  }
  return matches;
}

}  // namespace

BleuCounts& BleuCounts::operator+=(const BleuCounts& other) {
  for (std::size_t i = 0; i < matches.size(); ++i) {
    matches[i] += other.matches[i];
    totals[i] += other.totals[i];
  }
  output_words += other.output_words;
  reference_words += other.reference_words;
  return *this;
}

double BleuCounts::value() const {
  if (matches[0] == 0) return 0;
  double log_precisions = 0, smoothing = 1;
  for (std::size_t i = 0; i < matches.size(); ++i) {
    if (totals[i] == 0) return 0;
    const auto total = static_cast<double>(totals[i]);
    // Each order without a match counts as half of what the last such one did.
    if (matches[i] == 0) smoothing /= 2;
    log_precisions += std::log((matches[i] ? static_cast<double>(matches[i]) : smoothing) / total);
  }
  const double brevity = output_words < reference_words ? 1 - static_cast<double>(reference_words) /
                                                                  static_cast<double>(output_words)
                                                        : 0;
  return 100 * std::exp(brevity + log_precisions / static_cast<double>(matches.size()));
}

BleuCounts bleu_counts(std::string_view output, std::string_view reference) {
  const std::vector<std::string> output_words = bleu_words(output);
  const std::vector<std::string> reference_words = bleu_words(reference);
  std::unordered_map<std::string_view, std::uint32_t> known;
  const Numbers out = numbered(output_words, known), expected = numbered(reference_words, known);
  BleuCounts counts = {.output_words = static_cast<std::int64_t>(out.size()),
                       .reference_words = static_cast<std::int64_t>(expected.size())};
  Numbers out_grams = out, expected_grams = expected;
  for (std::size_t order = 1; order <= counts.matches.size(); ++order) {
    if (order > 1) {
      Grams grams;
      lengthen(out_grams, out, order, grams);
      lengthen(expected_grams, expected, order, grams);
    }
    counts.totals[order - 1] = static_cast<std::int64_t>(out_grams.size());
    counts.matches[order - 1] = clipped_matches(out_grams, expected_grams);
  }
  return counts;
}

}  // namespace lockstep::text
