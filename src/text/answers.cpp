#include <lockstep/text/corpus.h>
#include <lockstep/text/evaluation.h>

#include <algorithm>

namespace lockstep::text {
namespace {

std::uint64_t hash_of(std::span<const std::int32_t> tokens) {
  return text_hash({reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
}

}  // namespace

Answers::Answers(const PairFile& pairs, const std::optional<Bucket>& longest) {
  const auto cut = [](std::span<const std::int32_t> tokens, std::int64_t most) {
    return tokens.first(std::min(tokens.size(), static_cast<std::size_t>(most)));
  };
  for (std::int64_t i = 0; i < pairs.size(); ++i) {
    TokenPair pair = pairs[i];
    if (longest) pair = {cut(pair.source, longest->source), cut(pair.target, longest->target - 1)};
    known_.emplace_back(hash_of(pair.source), hash_of(pair.target));
  }
  std::ranges::sort(known_);
}

bool Answers::has(std::span<const std::int32_t> source,
                  std::span<const std::int32_t> target) const {
  return std::ranges::binary_search(known_, std::pair(hash_of(source), hash_of(target)));
}

double Answers::weight(std::span<const std::int32_t> source) const {
  const auto own = std::ranges::equal_range(known_, hash_of(source), {},
                                            &std::pair<std::uint64_t, std::uint64_t>::first);
  return own.empty() ? 1 : 1 / static_cast<double>(own.size());
}

}  // namespace lockstep::text
