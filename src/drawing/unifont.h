#pragma once

// GNU Unifont: a letter of dots for every character of Unicode's first plane, read from the file
// that distributions install. Pictures use it for what is not ASCII.

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep::drawing {

inline constexpr std::string_view kUnifontFile = "/usr/share/unifont/unifont.hex";

struct UnifontLetter {
  static constexpr int kRows = 16, kBaseline = 14;  ///< the baseline is below so many rows

  std::array<std::uint16_t, kRows> rows = {};  ///< from the top; the first dot is the highest bit
  int width = 0;                               ///< in dots: 8 or 16; at most 16 are inked
  int advance = 0;                             ///< 0: it is drawn on the letter before
  int offset = 0;  ///< to where it is drawn, from where the next letter is

  bool inked(int x, int y) const {
    return ((rows[static_cast<std::size_t>(y)] >> (15 - x)) & 1U) != 0;
  }
};

/// False where the file is not there, or is something else.
bool has_unifont();

/// Draws nothing and has no width if there is no such letter.
UnifontLetter unifont_letter(char32_t character);

}  // namespace lockstep::drawing
