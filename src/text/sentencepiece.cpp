// SentencePiece as a Tokenizer. The body of the bytes is SentencePiece's own model file.

#include <lockstep/error.h>
#include <lockstep/input/reservoir.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <array>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include "text/tokens.h"

// libsentencepiece and libc10 both have a global variable of this name: a flag of 32 bytes and an
// int. The dynamic linker makes them one. Were it libc10's, the flag's constructor would overwrite
// the mutex behind it, and the first TorchScript to run would wait for ever. Here both have the
// room they need.
extern "C" {
alignas(16) char FLAGS_minloglevel[64] = {};
}

namespace lockstep::text {
namespace {

/// SentencePiece's space.
constexpr std::string_view kSpace = "\u2581";

class SentencePieces : public Tokenizer {
 public:
  SentencePieces(std::unique_ptr<sentencepiece::SentencePieceProcessor> processor,
                 std::string model)
      : processor_(std::move(processor)), model_(std::move(model)) {}

  std::int64_t size() const override { return processor_->GetPieceSize(); }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    processor_->Encode(text, &tokens).IgnoreError();
    if (tokens.empty() && !text.empty()) tokens.push_back(kUnknown);  // spaces only
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::vector<std::int32_t> pieces;
    for (const std::int32_t token : tokens) {
      check_token(token, size());
      if (!is_mark(token)) pieces.push_back(token);
    }
    std::string text;
    processor_->Decode(pieces, &text).IgnoreError();
    return text;
  }

  std::string piece(std::int32_t token) const override {
    check_token(token, size());
    std::string text = processor_->IdToPiece(token);
    for (auto at = text.find(kSpace); at != std::string::npos; at = text.find(kSpace))
      text.replace(at, kSpace.size(), "_");
    return text;
  }

  std::string bytes() const override { return sealed(kSentencePiece, model_); }

 private:
  const std::unique_ptr<const sentencepiece::SentencePieceProcessor> processor_;
  const std::string model_;
};

/// Null when the model is none of ours.
std::unique_ptr<Tokenizer> tokenizer_of(std::string model) {
  auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
  const bool loaded = processor->LoadFromSerializedProto(model).ok();
  if (!loaded || processor->pad_id() != kPad || processor->unk_id() != kUnknown ||
      processor->bos_id() != kBegin || processor->eos_id() != kEnd)
    return nullptr;
  return std::make_unique<SentencePieces>(std::move(processor), std::move(model));
}

/// Hands texts to the trainer, each freed after its turn: the trainer has its own copy.
class Texts : public sentencepiece::SentenceIterator {
 public:
  explicit Texts(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  bool done() const override { return next_ == texts_.size(); }
  void Next() override { texts_[next_++] = std::string(); }
  const std::string& value() const override { return texts_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> texts_;
  std::size_t next_ = 0;
};

/// Is there anything but spaces? The trainer ends the process when no text has.
bool has_letters(std::string_view text) {
  while (!text.empty()) {
    if (text.starts_with(' '))
      text.remove_prefix(1);
    else if (text.starts_with(kSpace))
      text.remove_prefix(kSpace.size());
    else
      return true;
  }
  return false;
}

/// All texts, or `most` of them, each as likely as the other. SentencePiece's
/// own sampling is not used: its random numbers are the thread's.
std::vector<std::string> sample(const TextSource& texts, std::int64_t most, std::uint64_t seed) {
  input::Reservoir<std::string> chosen(most, seed);
  while (auto text = texts())
    if (has_letters(*text)) chosen.add(std::move(*text));
  return std::move(chosen).take();
}

void check_options(const SentencePieceOptions& options) {
  if (options.vocabulary <= kFirstOwnToken ||
      options.vocabulary > std::numeric_limits<std::int32_t>::max())
    throw ConfigError("a vocabulary of " + std::to_string(options.vocabulary) +
                      " pieces was asked for: four are marks, give at least 5");
  if (!(options.character_coverage >= 0.98 && options.character_coverage <= 1))
    throw ConfigError("character_coverage is " + std::to_string(options.character_coverage) +
                      ": SentencePiece takes 0.98 to 1");
  if (options.most_texts < 1)
    throw ConfigError("most_texts is " + std::to_string(options.most_texts) +
                      ": give at least 1 text to train on");
}

/// What the trainer is told. No normalisation ("identity"): NFKC would make Chinese punctuation
/// ASCII and a no-break space a space, and people would not get back what the data had. One thread:
/// the same bytes on every machine.
std::unordered_map<std::string, std::string> arguments(const SentencePieceOptions& options) {
  std::array<char, 32> coverage = {};  // with a point in every locale
  std::to_chars(coverage.data(), coverage.data() + coverage.size() - 1, options.character_coverage);
  return {{"model_type", "unigram"},
          {"vocab_size", std::to_string(options.vocabulary)},
          {"hard_vocab_limit", "false"},
          {"character_coverage", coverage.data()},
          {"normalization_rule_name", "identity"},
          {"pad_id", std::to_string(kPad)},
          {"unk_id", std::to_string(kUnknown)},
          {"bos_id", std::to_string(kBegin)},
          {"eos_id", std::to_string(kEnd)},
          {"unk_surface", std::string(kUnknownText)},
          {"max_sentence_length", std::to_string(1 << 20)},
          {"num_threads", "1"},
          {"minloglevel", "3"}};
}

/// SentencePiece's message without the place in its code: "...cc(580) [condition] What it says".
std::string reason(const sentencepiece::util::Status& status) {
  const std::string text = status.error_message();
  const std::size_t end = text.rfind("] ");
  return end == std::string::npos || end + 2 >= text.size() ? text : text.substr(end + 2);
}

}  // namespace

// A unigram model's pieces come sorted by their probability: the order that Tokenizer promises.
std::unique_ptr<Tokenizer> train_sentencepiece(const TextSource& texts,
                                               const SentencePieceOptions& options) {
  check_options(options);
  std::vector<std::string> chosen = sample(texts, options.most_texts, options.seed);
  if (chosen.empty()) throw ConfigError("there is no text to train SentencePiece on");
  const std::size_t count = chosen.size();
  Texts iterator(std::move(chosen));
  std::string model;
  const auto status =
      sentencepiece::SentencePieceTrainer::Train(arguments(options), &iterator, &model);
  if (!status.ok())
    throw ConfigError("SentencePiece made no vocabulary of up to " +
                      std::to_string(options.vocabulary) + " pieces from " + std::to_string(count) +
                      " texts: " + reason(status) +
                      " Give more text, a larger vocabulary, or tokens of characters");
  auto tokenizer = tokenizer_of(std::move(model));
  check(tokenizer != nullptr, "SentencePiece does not load what it trained");
  return tokenizer;
}

std::unique_ptr<Tokenizer> load_sentencepiece(std::string body, const std::string& path) {
  auto tokenizer = tokenizer_of(std::move(body));
  if (!tokenizer)
    throw CorruptFile(path, 0,
                      "a SentencePiece model whose first pieces are <pad>, <unk>, <s> and </s>");
  return tokenizer;
}

}  // namespace lockstep::text
