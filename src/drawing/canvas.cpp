#include "drawing/canvas.h"

#include <lockstep/error.h>

#include <algorithm>

#include "drawing/png.h"

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

/// The first code point's letter in the font; removes it from the text.
char take_letter(std::string_view& text) {
  constexpr char kFrame = 0x7f;
  const char first = text.front();
  text.remove_prefix(1);
  if (first >= ' ' && first < kFrame) return first;
  const auto continues = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
  };
  while (!text.empty() && continues(text.front())) text.remove_prefix(1);
  return kFrame;
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
  int letters = 0;
  for (; !text.empty(); ++letters) take_letter(text);
  return letters == 0 ? 0 : (letters * kPitch - 1) * scale;
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

void Canvas::write(int x, int y, std::string_view text, const Lettering& lettering) {
  const int scale = lettering.scale;
  for (int along = 0; !text.empty(); along += kPitch) {
    const char letter = take_letter(text);
    for (int down = 0; down < kLetterHeight; ++down)
      for (int dot = 0; dot < kLetterWidth; ++dot) {
        if (!inked(letter, dot, down)) continue;
        const int forth = (along + dot) * scale, below = down * scale;
        if (lettering.upwards)
          fill({x + below, y - forth - scale, scale, scale}, lettering.colour);
        else
          fill({x + forth, y + below, scale, scale}, lettering.colour);
      }
  }
}

}  // namespace lockstep::drawing
