#pragma once

// A white picture to fill boxes and write small text on. What lies outside is cut off.

#include <lockstep/image.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep::drawing {

using Colour = std::array<std::uint8_t, 3>;  ///< red, green, blue

struct Area {
  int left, top, width, height;
};

struct Lettering {
  int scale = 1;  ///< pixels a dot; a letter is 5 by 7 dots, and 1 below the line
  Colour colour = {0, 0, 0};
  bool upwards = false;  ///< turned to the left, to be read from the bottom to the top
};

/// In pixels along the line, for UTF-8: a place for each code point.
int text_length(std::string_view text, int scale);

class Canvas {
 public:
  Canvas(int width, int height);

  void fill(const Area& area, const Colour& colour);

  /// Writes UTF-8; what is not printable ASCII shows as an empty frame. The text begins at (x, y):
  /// the upper left corner of the first letter, or, when turned, its lower left corner.
  void write(int x, int y, std::string_view text, const Lettering& lettering = {});

  Image image() && { return std::move(image_); }

 private:
  Image image_;
};

}  // namespace lockstep::drawing
