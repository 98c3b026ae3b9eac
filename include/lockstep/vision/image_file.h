#pragma once

// JPEG and PNG files in memory. The content decides which of the two it is. Pictures are upright:
// EXIF's orientation is applied, and bad EXIF data ignored.

#include <lockstep/image.h>

#include <cstdint>
#include <span>
#include <string>

namespace lockstep::vision {

struct ImageSize {
  int width = 0, height = 0;
};

/// What a set of pictures does with one that turns out to be broken (CorruptFile) when its pixels
/// are read. A file that cannot be read at all is an IoError in any case.
enum class OnBroken {
  stand_in,   ///< the next one that can be read takes its place, with its labels: for training
  leave_out,  ///< for evaluation
  refuse,     ///< throw CorruptFile
};

/// Refused above that, before memory is taken.
inline constexpr std::int64_t kMostPixels = std::int64_t{64} << 20U;

/// Of the upright image. `bytes` may be the beginning of a file, if it holds the whole header.
/// `path` is for messages. Throws CorruptFile.
ImageSize image_size(const std::string& path, std::span<const std::uint8_t> bytes);

/// The upright image as RGB. Grey, palettes and CMYK (by plain multiplication, without a colour
/// profile) are converted, what is transparent is laid on white. A JPEG is decoded at the smallest
/// of 1/8, 1/4, 1/2 and full size at which its short side still has `short_side` pixels; 0: full
/// size. Throws CorruptFile when the file is not whole or has more than kMostPixels.
Image decode_image(const std::string& path, std::span<const std::uint8_t> bytes,
                   int short_side = 0);

/// The same at full size as RGBA, with a PNG's own alpha; 255 everywhere where there is none.
Image decode_rgba(const std::string& path, std::span<const std::uint8_t> bytes);

}  // namespace lockstep::vision
