#include "drawing/png.h"

#include <lockstep/error.h>
#include <png.h>

#include <limits>
#include <stdexcept>

namespace lockstep {

void drawing::check_image(const Image& image) {
  check(image.channels >= 1 && image.channels <= 4, "an image has one to four channels");
  check(image.width > 0 && image.height > 0, "an image has at least one pixel");
  check(image.pixels.size() <= std::numeric_limits<std::int32_t>::max(),
        "an image has less than 2 GiB of pixels");
  // Not their product, which may be too large for any integer.
  const auto row = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.channels);
  check(image.pixels.size() % row == 0 &&
            image.pixels.size() / row == static_cast<std::size_t>(image.height),
        "an image has width * height * channels pixel values");
}

std::string png(const Image& image) {
  constexpr png_uint_32 kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                      PNG_FORMAT_RGBA};
  drawing::check_image(image);
  png_image head{};
  head.version = PNG_IMAGE_VERSION;
  head.width = static_cast<png_uint_32>(image.width);
  head.height = static_cast<png_uint_32>(image.height);
  head.format = kFormats[image.channels - 1];
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(head);
  std::string result(size, '\0');
  if (png_image_write_to_memory(&head, result.data(), &size, /*convert_to_8bit=*/0,
                                image.pixels.data(), /*row_stride=*/0, /*colormap=*/nullptr) == 0)
    throw std::runtime_error(
        "an image of " + std::to_string(image.width) + " x " + std::to_string(image.height) +
        " cannot be written as PNG: " + static_cast<const char*>(head.message));
  result.resize(size);
  return result;
}

}  // namespace lockstep
