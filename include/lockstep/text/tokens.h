#pragma once

// Texts as numbers: SentencePiece, or characters. One vocabulary for both sides of a pair.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::text {

/// Tokens that every vocabulary begins with.
inline constexpr std::int32_t kPad = 0, kUnknown = 1, kBegin = 2, kEnd = 3, kFirstOwnToken = 4;

/// The tokens after the first four come roughly by frequency, the most frequent first. May be used
/// from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t size() const = 0;  ///< of the vocabulary

  /// At least one token, unless the text is empty; kUnknown for what the vocabulary does not have,
  /// and no other of the first four.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;

  /// kPad, kBegin and kEnd are left out; kUnknown shows as U+2047, two question marks in one.
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;

  /// A label for the token: "_how" begins a word, "ing" goes on with one; "<pad>", "<unk>", "<s>",
  /// "</s>".
  virtual std::string piece(std::int32_t token) const = 0;

  virtual std::string bytes() const = 0;  ///< what load_tokenizer reads
};

/// One text after the other; nothing at the end.
using TextSource = std::function<std::optional<std::string>()>;

struct SentencePieceOptions {
  std::int64_t vocabulary = 8000;       ///< at most; fewer when the text has fewer pieces
  double character_coverage = 0.9995;   ///< share of the text's characters that get a token
  std::int64_t most_texts = 1'000'000;  ///< if there are more, this many are drawn at random
  std::uint64_t seed = 0;               ///< of that choice
};

/// A unigram model. The same texts and options give the same bytes. Texts are taken as they are,
/// not normalised, but for spaces: runs are one space, none at the ends. Throws ConfigError when
/// the text is too little for a vocabulary, or has more characters than the vocabulary has places.
std::unique_ptr<Tokenizer> train_sentencepiece(const TextSource& texts,
                                               const SentencePieceOptions& options);

/// Each code point that occurs is a token, the most frequent first, at most `vocabulary` tokens in
/// all. Throws ConfigError when there is none.
std::unique_ptr<Tokenizer> train_characters(const TextSource& texts, std::int64_t vocabulary);

/// From Tokenizer::bytes(). Throws CorruptFile, naming `path`.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& bytes, const std::string& path);

}  // namespace lockstep::text
