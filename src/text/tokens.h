#pragma once

// What a tokenizer's bytes look like: a line "lockstep KIND 1 BYTES CRC", and the body that it
// counts and sums up (CRC-32 in hexadecimal).

#include <lockstep/text/tokens.h>

#include <memory>
#include <string>
#include <string_view>

namespace lockstep::text {

std::string sealed(std::string_view kind, std::string_view body);

inline constexpr std::string_view kSentencePiece = "sentencepiece";
inline constexpr std::string_view kCharacters = "characters";

/// What decode shows for kUnknown: two question marks in one.
inline constexpr std::string_view kUnknownText = "\u2047";

/// Throws std::logic_error unless the vocabulary has `token`.
void check_token(std::int32_t token, std::int64_t vocabulary);

/// Is the token one that decode leaves out?
inline bool is_mark(std::int32_t token) {
  return token == kPad || token == kBegin || token == kEnd;
}

/// From the body of each kind. They throw CorruptFile, naming `path`.
std::unique_ptr<Tokenizer> load_sentencepiece(std::string body, const std::string& path);
std::unique_ptr<Tokenizer> load_characters(const std::string& body, const std::string& path);

}  // namespace lockstep::text
