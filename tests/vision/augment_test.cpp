#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/vision/augment.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "pictures.h"

namespace augment_test {

using namespace lockstep;
using namespace lockstep::vision;
using Floats = std::vector<float>;

const ByteScale kPlain1({}, 1), kPlain3({}, 3);

/// An image of one channel, 2 rows of 3 bytes, through write_shifted; back to bytes.
Floats shifted(const Shift& shift) {
  const std::vector<std::uint8_t> bytes = {51, 102, 153, 204, 255, 0};
  Floats found(6, -1);
  write_shifted(bytes.data(), 2, 3, shift, kPlain1, found.data());
  for (float& value : found) value = std::round(value * 5);
  return found;
}

Floats resized(const Image& from, const Box& box, int size, bool flip = false) {
  Floats found(static_cast<std::size_t>(3 * size * size), -1);
  write_resized(from, box, size, flip, kPlain3, found.data());
  return found;
}

Box whole(const Image& image) {
  return {0, 0, static_cast<double>(image.width), static_cast<double>(image.height)};
}

TEST(ByteScale, NormalisesEachChannel) {
  const ByteScale scale({.mean = {0.5, 0.1}, .deviation = {0.25, 2}}, 2);
  EXPECT_FLOAT_EQ(scale.table(0)[255], 2.F);
  EXPECT_FLOAT_EQ(scale.table(0)[0], -2.F);
  EXPECT_FLOAT_EQ(scale.table(1)[51], 0.05F);
  for (const int channel : {0, 1})
    for (const unsigned byte : {0U, 1U, 77U, 255U})
      EXPECT_NEAR(static_cast<float>(byte) * scale.factor(channel) + scale.shift(channel),
                  scale.table(channel)[byte], 1e-6);
  EXPECT_FLOAT_EQ(kPlain1.table(0)[51], 0.2F);
}

TEST(ByteScale, RefusesAnotherNumberOfChannels) {
  EXPECT_THROW(ByteScale({.mean = {0.5}, .deviation = {1}}, 3), ConfigError);
  EXPECT_THROW(ByteScale({.mean = {0.5}, .deviation = {}}, 1), ConfigError);
  EXPECT_THROW(ByteScale({.mean = {0.5}, .deviation = {0}}, 1), ConfigError);
}

TEST(Shift, MovesTheCropAndFillsWithZeros) {
  EXPECT_EQ(shifted({}), (Floats{1, 2, 3, 4, 5, 0}));
  EXPECT_EQ(shifted({.right = 1}), (Floats{2, 3, 0, 5, 0, 0}));
  EXPECT_EQ(shifted({.right = -1}), (Floats{0, 1, 2, 0, 4, 5}));
  EXPECT_EQ(shifted({.down = 1}), (Floats{4, 5, 0, 0, 0, 0}));
  EXPECT_EQ(shifted({.down = -1}), (Floats{0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(shifted({.flip = true}), (Floats{3, 2, 1, 0, 5, 4}));
  EXPECT_EQ(shifted({.right = 1, .down = 0, .flip = true}), (Floats{0, 3, 2, 0, 0, 5}));
  for (const int far : {3, 4, 100, -3, -100}) {
    EXPECT_EQ(shifted({.right = far}), Floats(6, 0)) << far;
    EXPECT_EQ(shifted({.down = far}), Floats(6, 0)) << far;
  }
}

TEST(Shift, PaddingIsBlackAlsoWhenNormalised) {
  const ByteScale scale({.mean = {0.5}, .deviation = {0.5}}, 1);
  const std::vector<std::uint8_t> bytes = {255, 255};
  Floats found(2);
  write_shifted(bytes.data(), 1, 2, {.right = 1}, scale, found.data());
  EXPECT_EQ(found, (Floats{1, -1}));
}

TEST(Shift, EveryChannelIsMovedAlike) {
  const std::vector<std::uint8_t> bytes = {0, 51, 102, 0, 153, 204};
  Floats found(6);
  write_shifted(bytes.data(), 1, 3, {.right = 1}, ByteScale({}, 2), found.data());
  EXPECT_EQ(found, (Floats{0.2F, 0.4F, 0, 0.6F, 0.8F, 0}));
}

TEST(RandomShift, TakesEveryPlaceAndFlipsHalfOfTheTime) {
  std::set<std::pair<int, int>> places;
  int flips = 0;
  for (int item = 0; item < 4000; ++item) {
    KeyedRandom random(1, 0, item);
    const Shift shift = random_shift(4, random);
    EXPECT_LE(std::max(std::abs(shift.right), std::abs(shift.down)), 4);
    places.insert({shift.right, shift.down});
    flips += shift.flip ? 1 : 0;
  }
  EXPECT_EQ(places.size(), 81U);
  EXPECT_NEAR(flips, 2000, 160);  // 5 deviations
}

TEST(RandomBox, HasTheUsualAreasAndRatiosAndStaysInside) {
  constexpr int kWidth = 500, kHeight = 375;
  double least = 1, most = 0;
  for (int item = 0; item < 2000; ++item) {
    KeyedRandom random(1, 2, item);
    const Box box = random_box(kWidth, kHeight, random);
    EXPECT_GE(box.left, 0);
    EXPECT_GE(box.top, 0);
    EXPECT_LE(box.left + box.width, kWidth + 1e-9);
    EXPECT_LE(box.top + box.height, kHeight + 1e-9);
    const double area = box.width * box.height / (kWidth * kHeight);
    EXPECT_GE(area, 0.08 - 1e-9);
    EXPECT_GE(box.width / box.height, 0.75 - 1e-9);
    EXPECT_LE(box.width / box.height, 4.0 / 3 + 1e-9);
    least = std::min(least, area);
    most = std::max(most, area);
  }
  EXPECT_LT(least, 0.1);
  EXPECT_GT(most, 0.9);
}

TEST(RandomBox, OfAVeryLongImageIsTheMiddle) {
  KeyedRandom random(1, 0, 0);
  const Box wide = random_box(10000, 10, random);
  EXPECT_NEAR(wide.width, 40.0 / 3, 1e-9);
  EXPECT_NEAR(wide.left, (10000 - 40.0 / 3) / 2, 1e-9);
  EXPECT_NEAR(wide.height, 10, 1e-9);
  const Box high = random_box(10, 10000, random);
  EXPECT_NEAR(high.height, 40.0 / 3, 1e-9);
  EXPECT_NEAR(high.width, 10, 1e-9);
}

TEST(CentreBox, IsASquareInTheMiddle) {
  const Box box = centre_box(512, 256, 0.875);
  EXPECT_EQ(box.width, 224);
  EXPECT_EQ(box.height, 224);
  EXPECT_EQ(box.left, 144);
  EXPECT_EQ(box.top, 16);
}

TEST(Resize, OfTheSameSizeChangesNothing) {
  const Image image = tests::gradient(16, 16);
  const Floats found = resized(image, whole(image), 16);
  for (std::size_t i = 0; i < 256; ++i)
    for (std::size_t c = 0; c < 3; ++c)
      EXPECT_FLOAT_EQ(found[256 * c + i], static_cast<float>(image.pixels[3 * i + c]) / 255.F);
}

TEST(Resize, FlipIsLeftForRight) {
  const Image image = tests::gradient(40, 30);
  const Floats plain = resized(image, whole(image), 8),
               flipped = resized(image, whole(image), 8, true);
  for (std::size_t row = 0; row < 24; ++row)
    for (std::size_t x = 0; x < 8; ++x) EXPECT_EQ(flipped[8 * row + x], plain[8 * row + 7 - x]);
}

/// Stripes of one pixel are grey from afar: a filter that skips pixels would see black or white.
TEST(Resize, ShrinkingCoversEveryPixel) {
  Image stripes{128, 128, 3, {}};
  for (int i = 0; i < 128 * 128; ++i)
    stripes.pixels.insert(stripes.pixels.end(), 3, i % 2 == 0 ? 255 : 0);
  for (const float value : resized(stripes, whole(stripes), 8)) EXPECT_NEAR(value, 0.5, 0.01);
}

TEST(Resize, EnlargingIsLinearBetweenPixels) {
  Image two{2, 1, 3, {0, 0, 0, 255, 255, 255}};
  const Floats found = resized(two, whole(two), 8);
  for (std::size_t x = 0; x < 8; ++x)
    EXPECT_NEAR(found[x], std::clamp((static_cast<double>(x) + 0.5) / 4 - 0.5, 0.0, 1.0), 1e-6)
        << x;
}

TEST(Resize, TakesItsBoxOfTheImage) {
  const Image image = tests::gradient(100, 100);
  const Floats found = resized(image, {50, 0, 50, 50}, 10);
  EXPECT_NEAR(found[0], 0.525, 0.02);         // red at the left
  EXPECT_NEAR(found[9], 0.975, 0.02);         // red at the right
  EXPECT_NEAR(found[100], 0.025, 0.02);       // green at the top
  EXPECT_NEAR(found[100 + 90], 0.475, 0.02);  // green at the bottom
  EXPECT_NEAR(found[200 + 90], 0.525, 0.02);  // blue at the bottom
}

TEST(Resize, EveryShapeIsTakenWhole) {
  for (const int width : {1, 2, 3, 17, 300})
    for (const int height : {1, 2, 5, 200})
      for (const int size : {1, 2, 7, 64}) {
        Image white{width, height, 3, {}};
        white.pixels.assign(static_cast<std::size_t>(3 * width * height), 255);
        for (const float value : resized(white, whole(white), size)) ASSERT_NEAR(value, 1, 1e-5);
      }
}

}  // namespace augment_test
