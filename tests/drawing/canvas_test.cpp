// Letters on pictures: those of the program's own, and Unifont's for the rest of the world.

#include "drawing/canvas.h"

#include <gtest/gtest.h>

#include "drawing/unifont.h"

namespace {

using namespace lockstep;
using namespace lockstep::drawing;

Image written(std::string_view text, const Lettering& lettering = {.scale = 2}, int width = 80,
              int height = 20) {
  Canvas canvas(width, height);
  const bool upwards = lettering.upwards;
  canvas.write(0, upwards ? height : 0, text, lettering);
  return std::move(canvas).image();
}

bool has_ink(const Image& image, int x, int y) {
  return image.pixels[static_cast<std::size_t>(3 * (y * image.width + x))] == 0;
}

/// The first rows and columns of a picture, as dots.
std::vector<std::string> dots(const Image& image, int width, int height, int left = 0) {
  std::vector<std::string> rows;
  for (int y = 0; y < height; ++y) {
    rows.emplace_back();
    for (int x = 0; x < width; ++x) rows.back() += has_ink(image, left + x, y) ? '#' : '.';
  }
  return rows;
}

TEST(Canvas, WritesChineseWithTheDotsOfUnifont) {
  ASSERT_TRUE(has_unifont()) << "scripts/setup installs it";
  const Image cat = written("猫");
  EXPECT_EQ(cat.note, "");
  // 732B:008844882BFE1088..., a row of 16 dots in 4 digits.
  EXPECT_EQ(dots(cat, 16, 4), (std::vector<std::string>{"........#...#...", ".#...#..#...#...",
                                                        "..#.#.#########.", "...#....#...#..."}));
  EXPECT_EQ(text_length("猫", 2), 16);
  EXPECT_EQ(text_length("猫a", 2), 24);
  EXPECT_EQ(text_length("猫", 4), 32);
  EXPECT_TRUE(has_ink(written("猫", {.scale = 4}), 17, 1)) << "each dot is two by two pixels";
}

TEST(Canvas, TurnsLettersOfUnifontToo) {
  const Image flat = written("猫", {.scale = 2}, 16, 16);
  const Image up = written("猫", {.scale = 2, .upwards = true}, 16, 16);
  for (int y = 0; y < 16; ++y)
    for (int x = 0; x < 16; ++x) EXPECT_EQ(has_ink(flat, x, y), has_ink(up, y, 15 - x));
}

TEST(Canvas, PutsAMarkOnTheLetterBefore) {
  const Image accented = written("e\u0301");  // as macOS names files
  EXPECT_EQ(text_length("e\u0301", 2), 8);
  EXPECT_EQ(accented.note, "");
  int above = 0;
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 8; ++x) above += has_ink(accented, x, y);
  EXPECT_EQ(above, 4) << "the accent";
  EXPECT_EQ(dots(accented, 72, 16, 8), dots(Canvas(80, 20).image(), 72, 16, 8)) << "nothing beside";
}

TEST(Canvas, AsciiIsAsItWas) {
  EXPECT_EQ(text_length("cat", 2), 34);
  EXPECT_EQ(least_scale("cat"), 1);
  EXPECT_EQ(least_scale(std::vector<std::string>{"cat", "猫"}), 2);
  EXPECT_EQ(
      dots(written("L", {.scale = 1}), 5, 7),
      (std::vector<std::string>{"#....", "#....", "#....", "#....", "#....", "#....", "#####"}));
}

TEST(Canvas, ALetterThatThereIsNotIsAFrameWithANote) {
  const Image cat = written("\U0001F431 cat");
  EXPECT_EQ(cat.note, "U+1F431 is shown as a frame: GNU Unifont has no such letter");
  EXPECT_EQ(dots(cat, 8, 16), dots(written("\u25A1"), 8, 16));
  EXPECT_EQ(written("caf\xe9").note, "") << "what is no UTF-8 is U+FFFD";
  EXPECT_EQ(dots(written("\xe9"), 16, 16), dots(written("\uFFFD"), 16, 16));
}

}  // namespace
