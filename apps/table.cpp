#include "table.h"

#include <algorithm>
#include <utility>

namespace lockstep::apps {
namespace {

/// Whether a terminal takes two columns for it, as for Chinese, Japanese and Korean.
bool is_wide(char32_t letter) {
  constexpr std::pair<char32_t, char32_t> kWide[] = {
      {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},  {0xAC00, 0xD7A3},
      {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},  {0xFFE0, 0xFFE6},
      {0x1F300, 0x1F64F}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
  return std::ranges::any_of(
      kWide, [&](const auto& range) { return range.first <= letter && letter <= range.second; });
}

/// The columns that a terminal takes for UTF-8.
std::size_t columns(const std::string& text) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t length = first < 0xc0U ? 1 : first < 0xe0U ? 2 : first < 0xf0U ? 3 : 4;
    char32_t letter = first & (length == 1 ? 0xffU : 0xffU >> (length + 1));
    for (std::size_t j = 1; j < length && i + j < text.size(); ++j)
      letter = letter << 6U | (static_cast<unsigned char>(text[i + j]) & 0x3fU);
    // A byte that continues no letter counts as none, as do marks on the letter before.
    const bool adds = (first < 0x80U || first >= 0xc0U) && !(0x300 <= letter && letter <= 0x36f);
    count += !adds ? 0 : is_wide(letter) ? 2 : 1;
    i += length;
  }
  return count;
}
}  // namespace

std::string table(const Rows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text += std::string(widths[i] - columns(row[i]) + 2, ' ');
    }
    text += "\n";
  }
  return text;
}

}  // namespace lockstep::apps
