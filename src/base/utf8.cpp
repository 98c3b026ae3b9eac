#include "base/utf8.h"

namespace lockstep::base {
namespace {

/// How many bytes a character has that begins with `first`; 0 when none does.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

bool is_code(char32_t code, std::size_t length) {
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code >= kLeast[length] && !surrogate && code <= 0x10ffff;
}

}  // namespace

std::optional<char32_t> take_character(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t length = length_of(first);
  bool valid = length > 0 && text.size() >= length;
  char32_t code = length == 1 ? first : first & (0x7fU >> length);
  for (std::size_t i = 1; valid && i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    valid = (next & 0xc0U) == 0x80U;
    code = code << 6U | (next & 0x3fU);
  }
  valid = valid && is_code(code, length);
  text.remove_prefix(valid ? length : 1);
  return valid ? std::optional(code) : std::nullopt;
}

std::string valid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::string_view from = text;
    const bool valid = take_character(text).has_value();
    result += valid ? from.substr(0, from.size() - text.size()) : "\xef\xbf\xbd";
  }
  return result;
}

}  // namespace lockstep::base
