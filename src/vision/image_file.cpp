#include <lockstep/error.h>
#include <lockstep/vision/image_file.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <utility>

#include "vision/exif.h"
#include "vision/jpeg.h"

namespace lockstep::vision {
void check_size(const std::string& path, std::int64_t width, std::int64_t height) {
  if (width < 1 || height < 1 || width > kMostPixels / height)
    throw CorruptFile(path, 0,
                      "an image of 1 to " + std::to_string(kMostPixels) + " pixels, not of " +
                          std::to_string(width) + " x " + std::to_string(height));
}

namespace {

/// A PNG file being decoded, by libpng's simplified interface: it keeps its longjmp to itself.
class Png {
 public:
  Png(const std::string& path, std::span<const std::uint8_t> bytes)
      : path_(path), orientation_(png_orientation(bytes)) {
    image_.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image_, bytes.data(), bytes.size()) == 0) fail();
    try {
      check_size(path, image_.width, image_.height);
    } catch (const CorruptFile&) {
      png_image_free(&image_);
      throw;
    }
  }
  ~Png() { png_image_free(&image_); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  ImageSize size() const { return upright(stored(), orientation_); }

  /// 3 channels on white, or 4.
  Image decode(int channels) {
    image_.format = channels == 4 ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    Image result{stored().width, stored().height, channels, {}};
    result.pixels.resize(static_cast<std::size_t>(channels) * image_.width * image_.height);
    const png_color white{255, 255, 255};
    if (png_image_finish_read(&image_, &white, result.pixels.data(), 0, nullptr) == 0) fail();
    return upright(std::move(result), orientation_);
  }

 private:
  /// libpng has freed what it had, and does not say where in the file it was.
  [[noreturn]] void fail() {
    throw CorruptFile(path_, 0, std::string("a whole PNG image (libpng: ") + image_.message + ")");
  }

  ImageSize stored() const {
    return {static_cast<int>(image_.width), static_cast<int>(image_.height)};
  }

  const std::string& path_;
  const int orientation_;
  png_image image_{};
};

}  // namespace
namespace {

template <std::size_t size>
bool begins_with(std::span<const std::uint8_t> bytes, const std::array<std::uint8_t, size>& with) {
  return bytes.size() >= size && std::equal(with.begin(), with.end(), bytes.begin());
}

enum class Format { jpeg, png };

Format format_of(const std::string& path, std::span<const std::uint8_t> bytes) {
  constexpr std::array<std::uint8_t, 3> kJpeg = {0xff, 0xd8, 0xff};
  constexpr std::array<std::uint8_t, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  if (begins_with(bytes, kJpeg)) return Format::jpeg;
  if (begins_with(bytes, kPng)) return Format::png;
  throw CorruptFile(path, 0, "the first bytes of a JPEG or PNG image");
}

}  // namespace

ImageSize image_size(const std::string& path, std::span<const std::uint8_t> bytes) {
  if (format_of(path, bytes) == Format::jpeg) return jpeg_size(path, bytes);
  return Png(path, bytes).size();
}

Image decode_image(const std::string& path, std::span<const std::uint8_t> bytes, int short_side) {
  if (format_of(path, bytes) == Format::jpeg) return decode_jpeg(path, bytes, short_side);
  return Png(path, bytes).decode(3);
}

Image decode_rgba(const std::string& path, std::span<const std::uint8_t> bytes) {
  if (format_of(path, bytes) == Format::png) return Png(path, bytes).decode(4);
  const Image image = decode_jpeg(path, bytes, 0);
  Image result{image.width, image.height, 4, {}};
  result.pixels.reserve(image.pixels.size() / 3 * 4);
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    result.pixels.insert(result.pixels.end(), &image.pixels[i], &image.pixels[i] + 3);
    result.pixels.push_back(255);
  }
  return result;
}

}  // namespace lockstep::vision
