#include "text/tokens.h"

#include <lockstep/error.h>
#include <zlib.h>

#include <array>
#include <cstdio>

namespace lockstep::text {
namespace {

std::string prefix(std::string_view kind) { return "lockstep " + std::string(kind) + " 1 "; }

std::string head(std::string_view kind, std::string_view body) {
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size());
  std::array<char, 16> hexadecimal = {};
  std::snprintf(hexadecimal.data(), hexadecimal.size(), "%08lx", static_cast<unsigned long>(sum));
  return prefix(kind) + std::to_string(body.size()) + ' ' + hexadecimal.data() + '\n';
}

/// The body of bytes that begin with the kind's prefix.
std::string_view opened(std::string_view kind, std::string_view bytes, const std::string& path) {
  const std::size_t line = bytes.find('\n');
  const std::string_view body =
      line == std::string_view::npos ? std::string_view() : bytes.substr(line + 1);
  if (!bytes.starts_with(head(kind, body)))
    throw CorruptFile(path, prefix(kind).size(),
                      "the number and the sum of the " + std::to_string(body.size()) +
                          " bytes that follow: the file is torn or was altered");
  return body;
}

}  // namespace

std::string sealed(std::string_view kind, std::string_view body) {
  return head(kind, body).append(body);
}

void check_token(std::int32_t token, std::int64_t vocabulary) {
  check(token >= 0 && token < vocabulary, "Tokenizer: there is no token of that number");
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& bytes, const std::string& path) {
  if (bytes.starts_with(prefix(kSentencePiece)))
    return load_sentencepiece(std::string(opened(kSentencePiece, bytes, path)), path);
  if (bytes.starts_with(prefix(kCharacters)))
    return load_characters(std::string(opened(kCharacters, bytes, path)), path);
  throw CorruptFile(path, 0,
                    "\"" + prefix(kSentencePiece) + "\" or \"" + prefix(kCharacters) + "\"");
}

}  // namespace lockstep::text
