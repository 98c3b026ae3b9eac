#pragma once

// Texts as numbers: SentencePiece, or characters. One vocabulary for both sides of a pair; it
// begins with kPad, kUnknown, kBegin and kEnd (sequence_batch.h).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// May be used from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t size() const = 0;  ///< of the vocabulary
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;  ///< marks left out
  virtual std::string piece(std::int32_t token) const = 0;  ///< as people would read it
  virtual std::string bytes() const = 0;                    ///< what load_tokenizer reads
};

/// One text after the other; nothing at the end.
using TextSource = std::function<std::optional<std::string>()>;

struct SentencePieceOptions {
  std::int64_t vocabulary = 8000;  ///< at most: fewer when the text has not as many pieces
  double character_coverage = 0.9995;
  std::int64_t most_texts = 1'000'000;  ///< a sample of them is trained on
  std::uint64_t seed = 0;
};

/// Throws ConfigError when the text is too little for a vocabulary.
std::unique_ptr<Tokenizer> train_sentencepiece(const TextSource& texts,
                                               const SentencePieceOptions& options);

/// Each code point that occurs is a token, the most frequent first, at most `vocabulary` in all.
std::unique_ptr<Tokenizer> train_characters(const TextSource& texts, std::int64_t vocabulary);

/// From Tokenizer::bytes(). Throws CorruptFile, naming `path`.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& bytes, const std::string& path);

}  // namespace lockstep
