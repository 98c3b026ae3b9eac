#pragma once

// A picture to fill boxes, draw frames and write small text on. What lies outside is cut off.

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

/// For things with numbers: 16 colours that are easy to tell apart, on photographs too, and that
/// white text can be read on. Then they begin again; negative numbers have one, too.
Colour distinct_colour(int number);

/// In pixels along the line, for UTF-8: a place for each code point.
int text_length(std::string_view text, int scale);

class Canvas {
 public:
  /// White.
  Canvas(int width, int height);
  /// Draws on a picture, which must be RGB.
  explicit Canvas(Image image);

  void fill(const Area& area, const Colour& colour);

  /// Fills the edge of an area, inside of it. One that is too small for a frame is filled.
  void frame(const Area& area, int thickness, const Colour& colour);

  /// Copies an RGB picture, its upper left corner to (x, y).
  void place(int x, int y, const Image& image);

  /// Writes UTF-8; what is not printable ASCII shows as an empty frame. The text begins at (x, y):
  /// the upper left corner of the first letter, or, when turned, its lower left corner.
  void write(int x, int y, std::string_view text, const Lettering& lettering = {});

  Image image() && { return std::move(image_); }

 private:
  Image image_;
};

}  // namespace lockstep::drawing
