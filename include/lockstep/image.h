#pragma once

// A picture in memory, and its PNG and JPEG.

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace lockstep {

/// Rows from the top, pixels from the left, channels together: grey (1), grey and alpha (2),
/// RGB (3), RGBA (4).
struct Image {
  int width = 0, height = 0, channels = 3;
  std::vector<std::uint8_t> pixels;  ///< width * height * channels of them
  std::string note = {};             ///< what could not be drawn as it should; files do not have it

  auto fields() { return std::tie(width, height, channels, pixels, note); }  ///< lockstep/travel.h
};

/// The bytes of a PNG file that shows `image`, which must not be empty.
std::string png(const Image& image);

/// The same as a JPEG file, for grey or RGB, at a quality from 1 to 100.
std::string jpeg(const Image& image, int quality = 90);

}  // namespace lockstep
