#include "drawing/unifont.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"

namespace lockstep::drawing {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{32} << 20U;
constexpr std::size_t kHalf = 2 * UnifontLetter::kRows;  // digits of a letter that is 8 dots wide

/// Calls line(character, rest) for each line "0041:rest".
template <class Line>
void for_each_line(std::string_view text, const Line& line) {
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    std::uint32_t code = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), code, 16);
    if (error == std::errc() && end != one.data() + one.size() && *end == ':')
      line(char32_t{code}, one.substr(static_cast<std::size_t>(end + 1 - one.data())));
  }
}

/// Letters are taken from the file's text when they are drawn, since few of them are.
struct UnifontFile {
  UnifontFile() {
    try {
      read();
    } catch (const std::runtime_error&) {
      letters.clear();  // has_unifont() says so
    }
  }

  void read() {
    const std::string path(kUnifontFile);
    const std::string combining =
        base::read_file(base::folder_of(path) + "/plane00-combining.txt", kMostBytes);
    for_each_line(combining, [&](char32_t character, std::string_view number) {
      std::from_chars(number.data(), number.data() + number.size(), offsets[character]);
    });
    text = base::read_file(path, kMostBytes);
    for_each_line(text, [&](char32_t character, std::string_view digits) {
      if (digits.size() == kHalf || digits.size() == 2 * kHalf)
        letters.emplace_back(character, digits);
    });
    std::ranges::sort(letters);
  }

  std::string text;
  std::vector<std::pair<char32_t, std::string_view>> letters;  // by character
  std::map<char32_t, int> offsets;                             // of those that are drawn on others
};

const UnifontFile& unifont_file() {
  static const UnifontFile file;
  return file;
}

}  // namespace

bool has_unifont() { return !unifont_file().letters.empty(); }

UnifontLetter unifont_letter(char32_t character) {
  const UnifontFile& file = unifont_file();
  const auto found = std::ranges::lower_bound(file.letters, character, {},
                                              [](const auto& letter) { return letter.first; });
  if (found == file.letters.end() || found->first != character) return {};
  const std::string_view digits = found->second;
  const std::size_t a_row = digits.size() / UnifontLetter::kRows;
  UnifontLetter letter{.width = static_cast<int>(4 * a_row)};
  letter.advance = letter.width;
  for (std::size_t row = 0; row < letter.rows.size(); ++row) {
    const char* from = digits.data() + row * a_row;
    std::from_chars(from, from + a_row, letter.rows[row], 16);
    letter.rows[row] = static_cast<std::uint16_t>(letter.rows[row] << (16 - letter.width));
  }
  if (const auto offset = file.offsets.find(character); offset != file.offsets.end()) {
    letter.advance = 0;
    letter.offset = offset->second;
  }
  return letter;
}

}  // namespace lockstep::drawing
