// JPEG and PNG files, whole and broken. Compared with the picture they were made from: JPEG at
// quality 95 may be off by a few steps, PNG by none.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/vision/image_file.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "pictures.h"

namespace image_file_test {

using namespace lockstep;
using namespace lockstep::vision;
using tests::Bytes;
using tests::gradient;
using tests::jpeg;
using tests::png_file;

int largest_difference(const Image& a, const Image& b) {
  if (a.width != b.width || a.height != b.height || a.pixels.size() != b.pixels.size()) return 999;
  int largest = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i)
    largest = std::max(largest, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
  return largest;
}

/// The picture with its only channel three times.
Image as_rgb(const Image& grey) {
  Image image{grey.width, grey.height, 3, {}};
  for (const std::uint8_t value : grey.pixels) image.pixels.insert(image.pixels.end(), 3, value);
  return image;
}

void expect_corrupt(const Bytes& bytes, const std::string& what) {
  try {
    decode_image("folder/file", bytes);
    FAIL() << "decoded, expected: " << what;
  } catch (const CorruptFile& error) {
    EXPECT_EQ(error.path, "folder/file");
    EXPECT_LE(error.offset, bytes.size());
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
  }
}

TEST(ImageFile, JpegsAreDecodedToRgb) {
  const Image picture = gradient(64, 48);
  for (const bool progressive : {false, true}) {
    const Bytes file = jpeg(picture, {.progressive = progressive});
    EXPECT_LE(largest_difference(decode_image("file", file), picture), 12);
    EXPECT_EQ(image_size("file", file).width, 64);
    EXPECT_EQ(image_size("file", file).height, 48);
  }
}

TEST(ImageFile, GreyJpegsBecomeRgb) {
  const Image grey = gradient(64, 48, 1);
  const Image found = decode_image("file", jpeg(grey, {.stored = JCS_GRAYSCALE}));
  EXPECT_LE(largest_difference(found, as_rgb(grey)), 6);
}

TEST(ImageFile, JpegsAreDecodedNoLargerThanNeeded) {
  const Bytes file = jpeg(gradient(640, 480));
  for (const auto& [short_side, height] : std::vector<std::pair<int, int>>{{0, 480},
                                                                           {480, 480},
                                                                           {1000, 480},
                                                                           {241, 480},
                                                                           {240, 240},
                                                                           {121, 240},
                                                                           {120, 120},
                                                                           {60, 60},
                                                                           {1, 60}}) {
    const Image found = decode_image("file", file, short_side);
    EXPECT_EQ(found.height, height) << short_side;
    EXPECT_EQ(found.width, height * 4 / 3) << short_side;
    EXPECT_LE(largest_difference(found, gradient(found.width, found.height)), 12) << short_side;
  }
  EXPECT_EQ(decode_image("file", jpeg(gradient(61, 43)), 5).height, 6);
}

TEST(ImageFile, PngsAreDecodedExactly) {
  const Image picture = gradient(31, 17), grey = gradient(31, 17, 1);
  const Bytes file = png_file(31, 17, PNG_FORMAT_RGB, picture.pixels.data());
  EXPECT_EQ(largest_difference(decode_image("file", file), picture), 0);
  EXPECT_EQ(largest_difference(decode_image("file", file, 4), picture), 0);
  EXPECT_EQ(image_size("file", file).width, 31);
  EXPECT_EQ(image_size("file", file).height, 17);
  const Bytes grey_file = png_file(31, 17, PNG_FORMAT_GRAY, grey.pixels.data());
  EXPECT_EQ(largest_difference(decode_image("file", grey_file), as_rgb(grey)), 0);
}

TEST(ImageFile, PalettesBecomeRgb) {
  const Bytes places = {0, 1, 2, 2, 1, 0}, colours = {255, 0, 0, 0, 255, 0, 9, 8, 7};
  const Image found =
      decode_image("file", png_file(3, 2, PNG_FORMAT_RGB_COLORMAP, places.data(), colours));
  EXPECT_EQ(found.pixels, (Bytes{255, 0, 0, 0, 255, 0, 9, 8, 7, 9, 8, 7, 0, 255, 0, 255, 0, 0}));
}

TEST(ImageFile, WhatIsTransparentIsLaidOnWhite) {
  const Bytes pixels = {10, 20, 30, 255, 10, 20, 30, 0};
  const Image found = decode_image("file", png_file(2, 1, PNG_FORMAT_RGBA, pixels.data()));
  EXPECT_EQ(found.pixels, (Bytes{10, 20, 30, 255, 255, 255}));
}

TEST(ImageFile, SixteenBitsBecomeEight) {
  const std::vector<std::uint16_t> samples(3, 65535);
  const Image found = decode_image("file", png_file(1, 1, PNG_FORMAT_LINEAR_RGB, samples.data()));
  EXPECT_EQ(found.pixels, (Bytes{255, 255, 255}));
}

/// A third of the black ink, over the inks of a picture whose light they take away.
Image with_black(const Image& picture, bool inverted) {
  Image inks{picture.width, picture.height, 4, {}};
  for (std::size_t i = 0; i < picture.pixels.size(); ++i) {
    const std::uint8_t light = picture.pixels[i];
    inks.pixels.push_back(inverted ? light : static_cast<std::uint8_t>(255 - light));
    if (i % 3 == 2) inks.pixels.push_back(inverted ? 170 : 85);
  }
  return inks;
}

TEST(ImageFile, CmykJpegsBecomeRgb) {
  const Image picture = gradient(64, 48);
  Image darker = picture;
  for (std::uint8_t& value : darker.pixels)
    value = static_cast<std::uint8_t>((value * 170 + 127) / 255);
  const Image inverted = with_black(picture, true), plain = with_black(picture, false);
  for (const Bytes& file :
       {jpeg(inverted, {.stored = JCS_CMYK}), jpeg(inverted, {.stored = JCS_YCCK}),
        jpeg(plain, {.stored = JCS_CMYK, .adobe = false})})
    EXPECT_LE(largest_difference(decode_image("file", file), darker), 12);
  EXPECT_EQ(decode_image("file", jpeg(inverted, {.stored = JCS_CMYK}), 24).height, 24);
}

TEST(ImageFile, AlphaIsKeptOnRequest) {
  const Bytes pixels = {10, 20, 30, 255, 10, 20, 30, 0, 1, 2, 3, 128};
  const Image found = decode_rgba("file", png_file(3, 1, PNG_FORMAT_RGBA, pixels.data()));
  EXPECT_EQ(found.channels, 4);
  EXPECT_EQ(found.pixels, pixels);
  const Bytes grey = {7, 9};
  EXPECT_EQ(decode_rgba("file", png_file(2, 1, PNG_FORMAT_GRAY, grey.data())).pixels,
            (Bytes{7, 7, 7, 255, 9, 9, 9, 255}));
}

TEST(ImageFile, AJpegIsOpaque) {
  const Bytes file = jpeg(gradient(5, 4), {.exif = tests::exif(6)});
  const Image rgb = decode_image("file", file), rgba = decode_rgba("file", file);
  ASSERT_EQ(rgba.pixels.size(), std::size_t{4} * 5 * 4);
  EXPECT_EQ(rgba.width, 4);
  for (std::size_t i = 0; i < rgba.pixels.size(); ++i)
    EXPECT_EQ(rgba.pixels[i], i % 4 == 3 ? 255 : rgb.pixels[i / 4 * 3 + i % 4]);
}

TEST(ImageFile, EveryBeginningOfAJpegIsCorrupt) {
  for (const bool progressive : {false, true}) {
    const Bytes whole = jpeg(gradient(40, 30), {.progressive = progressive});
    for (std::size_t length = 0; length < whole.size(); ++length)
      EXPECT_THROW(decode_image("file", std::span(whole).first(length)), CorruptFile)
          << length << " of " << whole.size();
  }
}

/// What follows the pixels (12 bytes, IEND) is not looked for.
TEST(ImageFile, EveryBeginningOfAPngsPixelsIsCorrupt) {
  const Bytes whole = png_file(40, 30, PNG_FORMAT_RGB, gradient(40, 30).pixels.data());
  for (std::size_t length = 0; length < whole.size() - 16; ++length)
    EXPECT_THROW(decode_image("file", std::span(whole).first(length)), CorruptFile)
        << length << " of " << whole.size();
}

TEST(ImageFile, AnyFlippedByteIsDecodedOrCorruptAndNothingElse) {
  for (const Bytes& whole : {jpeg(gradient(24, 16)), jpeg(gradient(24, 16), {.progressive = true}),
                             png_file(24, 16, PNG_FORMAT_RGB, gradient(24, 16).pixels.data())})
    for (std::size_t place = 0; place < whole.size(); ++place) {
      Bytes bad = whole;
      bad[place] ^= 0xff;
      try {
        const Image image = decode_image("file", bad);
        EXPECT_EQ(image.pixels.size(), std::size_t{3} * static_cast<unsigned>(image.width) *
                                           static_cast<unsigned>(image.height));
      } catch (const CorruptFile&) {
      }
    }
}

TEST(ImageFile, AnEndingJpegSaysWhere) {
  Bytes bytes = jpeg(gradient(200, 200));
  bytes.resize(bytes.size() / 2);
  try {
    decode_image("file", bytes);
    FAIL();
  } catch (const CorruptFile& error) {
    EXPECT_GT(error.offset, bytes.size() - 100);
    EXPECT_LE(error.offset, bytes.size());
  }
}

TEST(ImageFile, OtherFilesAreRefused) {
  const std::string text = "GIF89a, or anything";
  expect_corrupt(Bytes(text.begin(), text.end()), "JPEG or PNG");
  expect_corrupt({}, "JPEG or PNG");
}

TEST(ImageFile, TooManyPixelsAreRefusedBeforeMemoryIsTaken) {
  Bytes file = jpeg(gradient(8, 8));
  const std::array<std::uint8_t, 2> frame = {0xff, 0xc0};  // then length 2, bits 1, height, width
  const auto at = std::search(file.begin(), file.end(), frame.begin(), frame.end());
  ASSERT_NE(at, file.end());
  std::fill(at + 5, at + 9, std::uint8_t{0xfe});
  expect_corrupt(file, "65278 x 65278");
  Bytes png = png_file(4, 4, PNG_FORMAT_RGB, gradient(4, 4).pixels.data());
  for (const std::size_t place : {18U, 19U, 22U, 23U}) png[place] = 0xff;  // width and height
  const auto checksum = crc32(0, png.data() + 12, 17);
  for (const unsigned i : {0U, 1U, 2U, 3U})
    png[29 + i] = static_cast<std::uint8_t>(checksum >> (24 - 8 * i));
  expect_corrupt(png, "65535 x 65535");
}

/// A progressive file whose first scan is there again and again: each costs a pass.
TEST(ImageFile, AJpegOfEndlessScansIsRefused) {
  const Bytes file = jpeg(gradient(64, 64), {.progressive = true});
  const std::array<std::uint8_t, 2> scan = {0xff, 0xda};
  const auto begin = std::search(file.begin(), file.end(), scan.begin(), scan.end());
  ASSERT_NE(begin, file.end());
  const auto end =
      std::adjacent_find(begin + 2, file.end(), [](int a, int b) { return a == 0xff && b != 0; });
  const auto repeated = [&](int times) {
    Bytes longer(file.begin(), end);
    for (int i = 0; i < times; ++i) longer.insert(longer.end(), begin, end);
    longer.insert(longer.end(), end, file.end());
    return longer;
  };
  EXPECT_EQ(decode_image("file", repeated(20)).width, 64);
  expect_corrupt(repeated(200), "JPEG");
}

}  // namespace image_file_test
