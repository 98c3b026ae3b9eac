// bleu_of OUTPUTS REFERENCES: prints matches, totals, words of both, and BLEU, for
// tests/oracles/bleu.py. Each file holds texts that a zero byte ends, so that a text may have any
// letter.

#include <lockstep/text/bleu.h>

#include <cstdio>
#include <fstream>

int main(int count, char** arguments) {
  if (count != 3) return 2;
  std::ifstream outputs(arguments[1], std::ios::binary), references(arguments[2], std::ios::binary);
  lockstep::text::BleuCounts counts;
  for (std::string output, reference;
       std::getline(outputs, output, '\0') && std::getline(references, reference, '\0');)
    counts += lockstep::text::bleu_counts(output, reference);
  for (const auto& numbers : {counts.matches, counts.totals})
    for (const std::int64_t number : numbers) std::printf("%lld ", static_cast<long long>(number));
  std::printf("%lld %lld %.17g\n", static_cast<long long>(counts.output_words),
              static_cast<long long>(counts.reference_words), counts.value());
  return 0;
}
