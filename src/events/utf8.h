#pragma once

#include <string>
#include <string_view>

namespace lockstep::events {

/// `text` with every byte that is not part of valid UTF-8 replaced by U+FFFD: readers refuse a
/// whole event for one such byte.
std::string valid_utf8(std::string_view text);

}  // namespace lockstep::events
