#pragma once

// JPEG and PNG files in memory. The content decides which of the two it is.

#include <lockstep/image.h>

#include <cstdint>
#include <span>
#include <string>

namespace lockstep::vision {

struct ImageSize {
  int width = 0, height = 0;
};

/// Refused above that, before memory is taken.
inline constexpr std::int64_t kMostPixels = std::int64_t{64} << 20U;

/// Of the image as it is stored. `path` is for messages. Throws CorruptFile.
ImageSize image_size(const std::string& path, std::span<const std::uint8_t> bytes);

/// The image as RGB. Grey and palettes are converted, what is transparent is laid on white. A JPEG
/// is decoded at the smallest of 1/8, 1/4, 1/2 and full size at which its short side still has
/// `short_side` pixels; 0: full size. Throws CorruptFile when the file is not whole, has more than
/// kMostPixels, or is a JPEG in CMYK.
Image decode_image(const std::string& path, std::span<const std::uint8_t> bytes,
                   int short_side = 0);

}  // namespace lockstep::vision
