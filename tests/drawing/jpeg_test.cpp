// Pictures are read back with libjpeg, through the reader of image files.

#include <gtest/gtest.h>
#include <lockstep/image.h>
#include <lockstep/vision/image_file.h>

#include <cstdlib>
#include <limits>
#include <stdexcept>

namespace jpeg_test {

using namespace lockstep;

/// Smooth, so that a JPEG of it is close.
Image smooth(int width, int height, int channels) {
  Image image{.width = width, .height = height, .channels = channels, .pixels = {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        image.pixels.push_back(static_cast<std::uint8_t>(c == 0 ? x * 255 / width : 100 + y % 50));
  return image;
}

Image decoded(const std::string& bytes) {
  return vision::decode_image("file",
                              {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

TEST(Jpeg, ReadsBackAsNearlyTheSamePicture) {
  for (const int channels : {1, 3})
    for (const auto& [width, height] : {std::pair{1, 1}, {7, 3}, {64, 48}, {301, 200}}) {
      const Image image = smooth(width, height, channels), found = decoded(jpeg(image, 95));
      ASSERT_EQ(found.width, width);
      ASSERT_EQ(found.height, height);
      for (std::size_t i = 0; i < found.pixels.size(); ++i) {
        const int wanted = image.pixels[channels == 3 ? i : i / 3];
        ASSERT_LE(std::abs(found.pixels[i] - wanted), 16) << i << " of " << width;
      }
    }
}

TEST(Jpeg, ALowerQualityIsSmaller) {
  const Image image = smooth(200, 200, 3);
  EXPECT_LT(jpeg(image, 20).size(), jpeg(image).size());
  EXPECT_LT(jpeg(image).size(), jpeg(image, 100).size());
  EXPECT_EQ(jpeg(image), jpeg(image, 90));
}

TEST(Jpeg, RefusesAnImageThatIsNotOne) {
  EXPECT_THROW(jpeg({}), std::logic_error);
  EXPECT_THROW(jpeg({.width = 2, .height = 2, .channels = 1, .pixels = {1, 2, 3}}),
               std::logic_error);
  EXPECT_THROW(jpeg({.width = -1, .height = -1, .channels = 1, .pixels = {1}}), std::logic_error);
  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_THROW(jpeg({.width = kMost, .height = kMost, .channels = 3, .pixels = {1}}),
               std::logic_error);
}

TEST(Jpeg, RefusesAlphaAndQualitiesThatAreNone) {
  for (const int channels : {2, 4})
    EXPECT_THROW(jpeg(smooth(2, 2, channels)), std::logic_error) << channels;
  for (const int quality : {-1, 0, 101})
    EXPECT_THROW(jpeg(smooth(2, 2, 3), quality), std::logic_error) << quality;
}

TEST(Jpeg, SaysWhenAPictureIsTooLargeForTheFormat) {
  try {
    jpeg(smooth(70000, 1, 1));
    FAIL() << "written";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("70000 x 1"), std::string::npos) << error.what();
  }
}

}  // namespace jpeg_test
