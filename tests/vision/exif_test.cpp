// Pictures that are stored turned or mirrored. A picture of six different pixels says what became
// of each of them:
//
//   1 2 3
//   4 5 6

#include "vision/exif.h"

#include <gtest/gtest.h>
#include <lockstep/vision/image_file.h>

#include <algorithm>
#include <cstdlib>

#include "pictures.h"

namespace exif_test {

using namespace lockstep;
using namespace lockstep::vision;
using tests::Bytes;
using tests::exif;
using tests::gradient;
using tests::jpeg;
using tests::png_file;
using tests::with_chunk;

/// As stored, when the picture above is what people are to see. From EXIF's table: where row 0 and
/// column 0 are seen.
const std::vector<std::pair<ImageSize, Bytes>> kStored = {
    {{3, 2}, {1, 2, 3, 4, 5, 6}},  // 1: top, left
    {{3, 2}, {3, 2, 1, 6, 5, 4}},  // 2: top, right
    {{3, 2}, {6, 5, 4, 3, 2, 1}},  // 3: bottom, right
    {{3, 2}, {4, 5, 6, 1, 2, 3}},  // 4: bottom, left
    {{2, 3}, {1, 4, 2, 5, 3, 6}},  // 5: left, top
    {{2, 3}, {3, 6, 2, 5, 1, 4}},  // 6: right, top
    {{2, 3}, {6, 3, 5, 2, 4, 1}},  // 7: right, bottom
    {{2, 3}, {4, 1, 5, 2, 6, 3}},  // 8: left, bottom
};

TEST(Exif, AllOrientationsAreMadeUpright) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const auto& [size, pixels] = kStored[static_cast<std::size_t>(orientation) - 1];
    const Image found = upright(Image{size.width, size.height, 1, pixels}, orientation);
    EXPECT_EQ(found.width, 3) << orientation;
    EXPECT_EQ(found.height, 2) << orientation;
    EXPECT_EQ(found.pixels, (Bytes{1, 2, 3, 4, 5, 6})) << orientation;
    EXPECT_EQ(upright(size, orientation).width, 3) << orientation;
  }
}

TEST(Exif, ChannelsStayTogether) {
  const Image stored{1, 2, 3, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(upright(stored, 6).pixels, (Bytes{4, 5, 6, 1, 2, 3}));
}

TEST(Exif, TheOrientationIsReadInBothByteOrders) {
  for (const bool big_endian : {false, true})
    for (int orientation = 1; orientation <= 8; ++orientation)
      EXPECT_EQ(exif_orientation(exif(orientation, big_endian)), orientation);
}

TEST(Exif, WhatIsNoOrientationCountsAsUpright) {
  for (const int value : {0, 9, 256, 65535}) EXPECT_EQ(exif_orientation(exif(value)), 1);
  const Bytes whole = exif(6);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const int found = exif_orientation(std::span(whole).first(length));
    EXPECT_EQ(found, length < 32 ? 1 : 6) << length;  // the value's two bytes end at 32
  }
  for (std::size_t place = 0; place < whole.size(); ++place)
    for (unsigned value = 0; value < 256; ++value) {
      Bytes bad = whole;
      bad[place] = static_cast<std::uint8_t>(value);
      const int found = exif_orientation(bad);
      EXPECT_TRUE(found >= 1 && found <= 8) << place << ": " << value;
    }
}

TEST(Exif, AnotherApp1SegmentSaysNothing) {
  const std::string xmp = "http://ns.adobe.com/xap/1.0/";
  EXPECT_EQ(app1_orientation(Bytes(xmp.begin(), xmp.end())), 1);
  EXPECT_EQ(app1_orientation({}), 1);
}

TEST(Exif, JpegsAreDecodedUprightAtEveryScale) {
  const Image picture = gradient(64, 48);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Bytes file = jpeg(picture, {.exif = exif(orientation, orientation % 2 == 0)});
    const bool turned = orientation >= 5;
    EXPECT_EQ(image_size("file", file).width, turned ? 48 : 64) << orientation;
    EXPECT_EQ(image_size("file", file).height, turned ? 64 : 48) << orientation;
    const Image expected = upright(decode_image("file", jpeg(picture)), orientation);
    EXPECT_EQ(decode_image("file", file).pixels, expected.pixels) << orientation;
    const Image small = decode_image("file", file, 24);
    EXPECT_EQ(small.width, turned ? 24 : 32) << orientation;
    EXPECT_EQ(small.height, turned ? 32 : 24) << orientation;
  }
}

TEST(Exif, PngsAreDecodedUpright) {
  const Image picture = gradient(3, 2);
  const Bytes plain = png_file(3, 2, PNG_FORMAT_RGB, picture.pixels.data());
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Bytes file = with_chunk(with_chunk(plain, "eXIf", exif(orientation)), "tEXt", {'a', 0});
    EXPECT_EQ(decode_image("file", file).pixels, upright(picture, orientation).pixels);
    EXPECT_EQ(image_size("file", file).width, orientation >= 5 ? 2 : 3);
    EXPECT_EQ(decode_rgba("file", file).width, orientation >= 5 ? 2 : 3);
  }
}

TEST(Exif, BadDataNeverFailsAPicture) {
  for (const Bytes& bad : {Bytes{1, 2, 3}, Bytes{'I', 'I'}, Bytes(70, 0xff), exif(77)}) {
    EXPECT_EQ(decode_image("file", jpeg(gradient(8, 4), {.exif = bad})).width, 8);
    const Bytes png = png_file(8, 4, PNG_FORMAT_RGB, gradient(8, 4).pixels.data());
    EXPECT_EQ(decode_image("file", with_chunk(png, "eXIf", bad)).width, 8);
  }
}

}  // namespace exif_test
