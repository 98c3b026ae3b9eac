// Any bytes as the body of a vocabulary of characters, and as a text for it: the vocabulary has
// each character once and its bytes are the same again, or CorruptFile.

#include <lockstep/error.h>

#include <cstdlib>
#include <string>

#include "text/tokens.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  const std::string body(data, data + size);
  try {
    const auto tokenizer = text::load_characters(body, "path");
    if (tokenizer->bytes() != text::sealed(text::kCharacters, body)) std::abort();
    const auto tokens = tokenizer->encode(body);
    if (static_cast<std::int64_t>(tokens.size()) + text::kFirstOwnToken != tokenizer->size() ||
        tokenizer->decode(tokens) != body)
      std::abort();
  } catch (const CorruptFile&) {
    const auto few = text::load_characters("ab", "path");
    if (few->encode(body).size() > size) std::abort();
  }
  return 0;
}
