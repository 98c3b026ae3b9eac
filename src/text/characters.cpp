// Characters as tokens. The body of the bytes: the characters of the vocabulary after the first
// four tokens, one after the other, in UTF-8.

#include <lockstep/error.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/utf8.h"
#include "text/tokens.h"

namespace lockstep::text {
namespace {

void put_character(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) {
    text += static_cast<char>(static_cast<unsigned char>(byte));
  };
  const auto put_rest = [&](unsigned shift) { put(0x80U | (code >> shift & 0x3fU)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0U | code >> 6U);
  } else if (code < 0x10000) {
    put(0xe0U | code >> 12U);
    put_rest(6);
  } else {
    put(0xf0U | code >> 18U);
    put_rest(12);
    put_rest(6);
  }
  put_rest(0);
}

class Characters : public Tokenizer {
 public:
  /// `characters` are different from each other.
  explicit Characters(std::u32string characters) : characters_(std::move(characters)) {
    for (const char32_t code : characters_)
      tokens_.emplace(code, kFirstOwnToken + static_cast<std::int32_t>(tokens_.size()));
  }

  std::int64_t size() const override {
    return kFirstOwnToken + static_cast<std::int64_t>(characters_.size());
  }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    while (!text.empty()) {
      const auto code = base::take_character(text);
      const auto found = code ? tokens_.find(*code) : tokens_.end();
      tokens.push_back(found == tokens_.end() ? kUnknown : found->second);
    }
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) {
      check_token(token, size());
      if (token == kUnknown)
        text += kUnknownText;
      else if (!is_mark(token))
        put_character(text, character(token));
    }
    return text;
  }

  std::string piece(std::int32_t token) const override {
    constexpr std::array<const char*, kFirstOwnToken> kNames = {"<pad>", "<unk>", "<s>", "</s>"};
    check_token(token, size());
    if (token < kFirstOwnToken) return kNames.at(static_cast<std::size_t>(token));
    std::string text;
    put_character(text, character(token));
    return text == " " ? "_" : text;
  }

  std::string bytes() const override {
    std::string body;
    for (const char32_t code : characters_) put_character(body, code);
    return sealed(kCharacters, body);
  }

 private:
  char32_t character(std::int32_t token) const {
    return characters_[static_cast<std::size_t>(token - kFirstOwnToken)];
  }

  const std::u32string characters_;
  std::unordered_map<char32_t, std::int32_t> tokens_;
};

}  // namespace

std::unique_ptr<Tokenizer> train_characters(const TextSource& texts, std::int64_t vocabulary) {
  if (vocabulary <= kFirstOwnToken)
    throw ConfigError("a vocabulary of " + std::to_string(vocabulary) +
                      " tokens was asked for: four are marks, give at least 5");
  std::unordered_map<char32_t, std::int64_t> counts;
  while (const auto text = texts()) {
    std::string_view rest = *text;
    while (!rest.empty())
      if (const auto code = base::take_character(rest)) ++counts[*code];
  }
  if (counts.empty()) throw ConfigError("there is no text to take the characters of");
  std::vector<std::pair<std::int64_t, char32_t>> order;  // the most frequent first
  for (const auto& [code, count] : counts) order.emplace_back(-count, code);
  std::sort(order.begin(), order.end());
  const auto most = static_cast<std::size_t>(vocabulary - kFirstOwnToken);
  if (order.size() > most) order.resize(most);
  std::u32string characters;
  for (const auto& [count, code] : order) characters += code;
  return std::make_unique<Characters>(std::move(characters));
}

std::unique_ptr<Tokenizer> load_characters(const std::string& body, const std::string& path) {
  if (body.empty()) throw CorruptFile(path, 0, "a second line with at least one character");
  std::u32string characters;
  std::unordered_set<char32_t> seen;
  std::string_view rest = body;
  while (!rest.empty()) {
    const std::size_t offset = body.size() - rest.size();
    const auto code = base::take_character(rest);
    if (!code || !seen.insert(*code).second)
      throw CorruptFile(path, offset,
                        "characters in UTF-8, each once (counted from the second line)");
    characters += *code;
  }
  return std::make_unique<Characters>(std::move(characters));
}

}  // namespace lockstep::text
