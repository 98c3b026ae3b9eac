// Pictures are read back with libpng.

#include <gtest/gtest.h>
#include <lockstep/image.h>
#include <png.h>

#include <limits>
#include <stdexcept>

namespace png_test {

using namespace lockstep;

Image counting(int width, int height, int channels) {
  Image image{.width = width, .height = height, .channels = channels, .pixels = {}};
  for (int i = 0; i < width * height * channels; ++i)
    image.pixels.push_back(static_cast<std::uint8_t>(i * 7 % 256));
  return image;
}

Image decoded(const std::string& bytes) {
  png_image head{};
  head.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_memory(&head, bytes.data(), bytes.size())) << head.message;
  Image image{.width = static_cast<int>(head.width),
              .height = static_cast<int>(head.height),
              .channels = static_cast<int>(PNG_IMAGE_SAMPLE_CHANNELS(head.format)),
              .pixels = std::vector<std::uint8_t>(PNG_IMAGE_SIZE(head))};
  EXPECT_TRUE(png_image_finish_read(&head, nullptr, image.pixels.data(), 0, nullptr))
      << head.message;
  return image;
}

TEST(Png, KeepsEveryPixel) {
  for (int channels = 1; channels <= 4; ++channels)
    for (const auto& [width, height] : {std::pair{1, 1}, {3, 2}, {2, 5}, {300, 1}, {64, 48}}) {
      const Image image = counting(width, height, channels), found = decoded(png(image));
      EXPECT_EQ(found.width, width);
      EXPECT_EQ(found.height, height);
      EXPECT_EQ(found.channels, channels);
      EXPECT_EQ(found.pixels, image.pixels) << width << " x " << height << " x " << channels;
    }
}

TEST(Png, RefusesAnImageThatIsNotOne) {
  EXPECT_THROW(png({}), std::logic_error);
  EXPECT_THROW(png({.width = 1, .height = 1, .channels = 5, .pixels = {1, 2, 3, 4, 5}}),
               std::logic_error);
  EXPECT_THROW(png({.width = 2, .height = 2, .channels = 1, .pixels = {1, 2, 3}}),
               std::logic_error);
  EXPECT_THROW(png({.width = -1, .height = -1, .channels = 1, .pixels = {1}}), std::logic_error);
  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_THROW(png({.width = kMost, .height = kMost, .channels = 4, .pixels = {1}}),
               std::logic_error);
}

}  // namespace png_test
