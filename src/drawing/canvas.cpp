#include "drawing/canvas.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cstdio>

#include "base/utf8.h"
#include "drawing/png.h"
#include "drawing/unifont.h"

namespace lockstep::drawing {
namespace {

constexpr int kLetterWidth = 5, kLetterHeight = 8, kPitch = kLetterWidth + 1;
constexpr int kColumns = 16;  // as in a table of ASCII, which starts with the space
constexpr int kLineLength = kColumns * kPitch;

constexpr std::string_view kFont = R"(
..... ..#.. .#.#. .#.#. ..#.. ##..# .##.. ..#.. ...#. .#... ..... ..... ..... ..... ..... ....#
..... ..#.. .#.#. .#.#. .#### ##..# #..#. ..#.. ..#.. ..#.. ..#.. ..#.. ..... ..... ..... ....#
..... ..#.. .#.#. ##### #.#.. ...#. #.#.. ..#.. .#... ...#. #.#.# ..#.. ..... ..... ..... ...#.
..... ..#.. ..... .#.#. .###. ..#.. .#... ..... .#... ...#. .###. ##### ..... ##### ..... ..#..
..... ..#.. ..... ##### ..#.# .#... #.#.# ..... .#... ...#. #.#.# ..#.. ..... ..... ..... .#...
..... ..... ..... .#.#. ####. #..## #..#. ..... ..#.. ..#.. ..#.. ..#.. ..##. ..... ..##. #....
..... ..#.. ..... .#.#. ..#.. #..## .##.# ..... ...#. .#... ..... ..... ...#. ..... ..##. #....
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..#.. ..... ..... .....
.###. ..#.. .###. .###. ...#. ##### .###. ##### .###. .###. ..... ..... ...#. ..... .#... .###.
#...# .##.. #...# #...# ..##. #.... #.... ....# #...# #...# ..##. ..##. ..#.. ..... ..#.. #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...# ..##. ..##. .#... ##### ...#. ....#
#.#.# ..#.. ...#. ..##. #..#. ....# ####. ...#. .###. .#### ..... ..... #.... ..... ....# ...#.
##..# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....# ..##. ..... .#... ##### ...#. ..#..
#...# ..#.. .#... #...# ...#. #...# #...# ..#.. #...# ....# ..##. ..##. ..#.. ..... ..#.. .....
.###. .###. ##### .###. ...#. .###. .###. ..#.. .###. .###. ..... ...#. ...#. ..... .#... ..#..
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..#.. ..... ..... ..... .....
.###. .###. ####. .###. ####. ##### ##### .###. #...# .###. ..### #...# #.... #...# #...# .###.
#...# #...# #...# #...# #...# #.... #.... #...# #...# ..#.. ...#. #..#. #.... ##.## ##..# #...#
#.### #...# #...# #.... #...# #.... #.... #.... #...# ..#.. ...#. #.#.. #.... #.#.# ##..# #...#
#.#.# ##### ####. #.... #...# ####. ####. #.### ##### ..#.. ...#. ##... #.... #.#.# #.#.# #...#
#.### #...# #...# #.... #...# #.... #.... #...# #...# ..#.. ...#. #.#.. #.... #...# #..## #...#
#.... #...# #...# #...# #...# #.... #.... #...# #...# ..#.. #..#. #..#. #.... #...# #..## #...#
.###. #...# ####. .###. ####. ##### #.... .#### #...# .###. .##.. #...# ##### #...# #...# .###.
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....
####. .###. ####. .#### ##### #...# #...# #...# #...# #...# ##### .###. #.... .###. ..#.. .....
#...# #...# #...# #.... ..#.. #...# #...# #...# #...# #...# ....# .#... #.... ...#. .#.#. .....
#...# #...# #...# #.... ..#.. #...# #...# #...# .#.#. .#.#. ...#. .#... .#... ...#. #...# .....
####. #...# ####. .###. ..#.. #...# #...# #.#.# ..#.. ..#.. ..#.. .#... ..#.. ...#. ..... .....
#.... #.#.# #.#.. ....# ..#.. #...# .#.#. #.#.# .#.#. ..#.. .#... .#... ...#. ...#. ..... .....
#.... #..#. #..#. ....# ..#.. #...# .#.#. ##.## #...# ..#.. #.... .#... ....# ...#. ..... .....
#.... .##.# #...# ####. ..#.. .###. ..#.. #...# #...# ..#.. ##### .###. ....# .###. ..... .....
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... #####
.#... ..... #.... ..... ....# ..... ..##. ..... #.... ..#.. ...#. #.... .##.. ..... ..... .....
..#.. ..... #.... ..... ....# ..... .#..# ..... #.... ..... ..... #.... ..#.. ..... ..... .....
...#. .###. ####. .#### .#### .###. .#... .#### ####. .##.. ..##. #..#. ..#.. ##.#. ####. .###.
..... ....# #...# #.... #...# #...# ###.. #...# #...# ..#.. ...#. #.#.. ..#.. #.#.# #...# #...#
..... .#### #...# #.... #...# ##### .#... #...# #...# ..#.. ...#. ##... ..#.. #.#.# #...# #...#
..... #...# #...# #.... #...# #.... .#... .#### #...# ..#.. ...#. #.#.. ..#.. #.#.# #...# #...#
..... .#### ####. .#### .#### .###. .#... ....# #...# .###. #..#. #..#. .###. #...# #...# .###.
..... ..... ..... ..... ..... ..... ..... .###. ..... ..... .##.. ..... ..... ..... ..... .....
..... ..... ..... ..... .#... ..... ..... ..... ..... ..... ..... ...## ..#.. ##... ..... #####
..... ..... ..... ..... .#... ..... ..... ..... ..... ..... ..... ..#.. ..#.. ..#.. ..... #...#
####. .#### #.##. .#### ###.. #...# #...# #...# #...# #...# ##### ..#.. ..#.. ..#.. .#..# #...#
#...# #...# ##..# #.... .#... #...# #...# #...# .#.#. #...# ...#. .#... ..#.. ...#. #.#.# #...#
#...# #...# #.... .###. .#... #...# #...# #.#.# ..#.. #...# ..#.. ..#.. ..#.. ..#.. #..#. #...#
####. .#### #.... ....# .#..# #...# .#.#. #.#.# .#.#. .#### .#... ..#.. ..#.. ..#.. ..... #...#
#.... ....# #.... ####. ..##. .#### ..#.. .#.#. #...# ....# ##### ...## ..#.. ##... ..... #####
#.... ....# ..... ..... ..... ..... ..... ..... ..... .###. ..... ..... ..... ..... ..... .....
)";

/// Whether the letter has ink at a dot.
bool inked(char letter, int x, int y) {
  const int place = letter - ' ';
  const int line = place / kColumns * kLetterHeight + y;
  return kFont[static_cast<std::size_t>(1 + line * kLineLength + place % kColumns * kPitch + x)] ==
         '#';
}

constexpr char kFrame = 0x7f;  // in the font

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) { return letter >= ' ' && letter < kFrame; });
}

bool needs_unifont(std::string_view text) { return !is_plain(text) && has_unifont(); }

/// What is no UTF-8 counts as U+FFFD.
char32_t take_letter(std::string_view& text) {
  return base::take_character(text).value_or(U'\uFFFD');
}

/// Pixels a dot of Unifont: its letters are twice as high.
int unifont_dot(int scale) { return std::max(1, scale / 2); }

/// A frame where there is no such letter.
UnifontLetter letter_or_frame(char32_t character) {
  const UnifontLetter letter = unifont_letter(character);
  return letter.width > 0 ? letter : unifont_letter(U'\u25A1');
}

std::string code_point(char32_t character) {
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), "U+%04X", static_cast<unsigned>(character));
  return text.data();
}

constexpr std::array<Colour, 16> kDistinct = {{{208, 28, 46},
                                               {24, 104, 216},
                                               {16, 136, 56},
                                               {204, 92, 0},
                                               {128, 52, 196},
                                               {0, 132, 148},
                                               {212, 20, 140},
                                               {140, 88, 36},
                                               {88, 120, 0},
                                               {80, 84, 224},
                                               {180, 88, 104},
                                               {0, 116, 104},
                                               {160, 24, 96},
                                               {84, 112, 152},
                                               {164, 112, 0},
                                               {116, 116, 116}}};

}  // namespace

Colour distinct_colour(int number) {
  return kDistinct[static_cast<unsigned>(number) % kDistinct.size()];
}

int text_length(std::string_view text, int scale) {
  int length = 0;
  if (needs_unifont(text)) {
    while (!text.empty()) length += letter_or_frame(take_letter(text)).advance;
    return length * unifont_dot(scale);
  }
  for (; !text.empty(); length += kPitch) take_letter(text);
  return length == 0 ? 0 : (length - 1) * scale;
}

int least_scale(std::string_view text) { return needs_unifont(text) ? 2 : 1; }

int least_scale(const std::vector<std::string>& texts) {
  return std::ranges::any_of(texts, needs_unifont) ? 2 : 1;
}

Canvas::Canvas(int width, int height)
    : image_{width, height, 3,
             std::vector<std::uint8_t>(
                 static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3, 255)} {}

Canvas::Canvas(Image image) : image_(std::move(image)) {
  check_image(image_);
  check(image_.channels == 3, "a canvas is an RGB picture");
}

void Canvas::fill(const Area& area, const Colour& colour) {
  const auto end = [](int begin, int length, int most) {
    return static_cast<int>(std::min<std::int64_t>(std::int64_t{begin} + length, most));
  };
  const int right = end(area.left, area.width, image_.width);
  const int bottom = end(area.top, area.height, image_.height);
  for (int y = std::max(area.top, 0); y < bottom; ++y)
    for (int x = std::max(area.left, 0); x < right; ++x)
      std::copy(colour.begin(), colour.end(),
                image_.pixels.begin() + 3 * (std::ptrdiff_t{y} * image_.width + x));
}

void Canvas::frame(const Area& area, int thickness, const Colour& colour) {
  const int across = std::min(thickness, area.width), down = std::min(thickness, area.height);
  fill({area.left, area.top, area.width, down}, colour);
  fill({area.left, area.top + area.height - down, area.width, down}, colour);
  fill({area.left, area.top, across, area.height}, colour);
  fill({area.left + area.width - across, area.top, across, area.height}, colour);
}

void Canvas::place(int x, int y, const Image& image) {
  check_image(image);
  check(image.channels == 3, "a picture that is placed on a canvas is RGB");
  const int left = std::max(x, 0), right = std::min(x + image.width, image_.width);
  if (left >= right) return;
  for (int row = std::max(y, 0); row < std::min(y + image.height, image_.height); ++row) {
    const auto from =
        image.pixels.begin() + 3 * (std::ptrdiff_t{row - y} * image.width + (left - x));
    std::copy(from, from + std::ptrdiff_t{3} * (right - left),
              image_.pixels.begin() + 3 * (std::ptrdiff_t{row} * image_.width + left));
  }
}

/// A dot of a text, `along` the line and `down` from its top.
void Canvas::fill_dot(int x, int y, int along, int down, int size, const Lettering& lettering) {
  if (lettering.upwards)
    fill({x + down, y - along - size, size, size}, lettering.colour);
  else
    fill({x + along, y + down, size, size}, lettering.colour);
}

void Canvas::write(int x, int y, std::string_view text, const Lettering& lettering) {
  if (needs_unifont(text))
    write_unifont(x, y, text, lettering);
  else
    write_dots(x, y, text, lettering);
}

void Canvas::write_dots(int x, int y, std::string_view text, const Lettering& lettering) {
  const int scale = lettering.scale;
  for (int along = 0; !text.empty(); along += kPitch) {
    const char32_t character = take_letter(text);
    const bool plain = character >= ' ' && character < char32_t{kFrame};
    if (!plain) missing_.insert(character);
    const char letter = plain ? static_cast<char>(character) : kFrame;
    for (int down = 0; down < kLetterHeight; ++down)
      for (int dot = 0; dot < kLetterWidth; ++dot)
        if (inked(letter, dot, down))
          fill_dot(x, y, (along + dot) * scale, down * scale, scale, lettering);
  }
}

/// On the same line as the other letters.
void Canvas::write_unifont(int x, int y, std::string_view text, const Lettering& lettering) {
  const int dot = unifont_dot(lettering.scale);
  const int top = std::max(0, 7 * lettering.scale - UnifontLetter::kBaseline * dot);
  for (int along = 0; !text.empty();) {
    const char32_t character = take_letter(text);
    if (unifont_letter(character).width == 0) missing_.insert(character);
    const UnifontLetter letter = letter_or_frame(character);
    for (int down = 0; down < UnifontLetter::kRows; ++down)
      for (int at = 0; at < letter.width; ++at)
        if (letter.inked(at, down))
          fill_dot(x, y, (along + letter.offset + at) * dot, top + down * dot, dot, lettering);
    along += letter.advance;
  }
}

Image Canvas::image() && {
  if (missing_.empty()) return std::move(image_);
  std::string letters;
  constexpr std::size_t kShown = 5;
  for (std::size_t shown = 0; const char32_t character : missing_)
    if (shown++ < kShown) letters += (shown == 1 ? "" : ", ") + code_point(character);
  if (missing_.size() > kShown) letters += " and others";
  image_.note =
      letters + (missing_.size() == 1 ? " is shown as a frame: " : " are shown as frames: ");
  image_.note += has_unifont() ? "GNU Unifont has no such letter"
                               : "there is no " + std::string(kUnifontFile) +
                                     "; install GNU Unifont (Debian: apt-get install unifont)";
  return std::move(image_);
}

}  // namespace lockstep::drawing
