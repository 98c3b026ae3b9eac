#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::base {

/// Takes the first character off `text`, which must not be empty. Nothing when its first byte does
/// not begin valid UTF-8; then that byte is taken off.
std::optional<char32_t> take_character(std::string_view& text);

/// `text` with every byte that is not part of valid UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

/// What some programs write at the beginning of a file to say that it is UTF-8.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace lockstep::base
