#pragma once

// A picture to fill boxes, draw frames and write small text on. What lies outside is cut off.

#include <lockstep/image.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::drawing {

using Colour = std::array<std::uint8_t, 3>;  ///< red, green, blue

struct Area {
  int left, top, width, height;
};

struct Lettering {
  int scale = 1;  ///< pixels a dot; a letter is 5 by 7 dots, and 1 below the line. See least_scale
  Colour colour = {0, 0, 0};
  bool upwards = false;  ///< turned to the left, to be read from the bottom to the top
};

/// For things with numbers: 16 colours that are easy to tell apart, on photographs too, and that
/// white text can be read on. Then they begin again; negative numbers have one, too.
Colour distinct_colour(int number);

/// In pixels along the line, for UTF-8.
int text_length(std::string_view text, int scale);

/// The least scale at which a text can be read: 2 for one with letters of Unifont, which are
/// higher.
int least_scale(std::string_view text);
int least_scale(const std::vector<std::string>& texts);

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

  /// Writes UTF-8 that begins at (x, y): the upper left corner of the first letter, or, when
  /// turned, its lower left corner. A text with more than printable ASCII is written in Unifont,
  /// from left to right. A letter that there is none of shows as an empty frame, and the picture
  /// has a note of it.
  void write(int x, int y, std::string_view text, const Lettering& lettering = {});

  Image image() &&;

 private:
  void fill_dot(int x, int y, int along, int down, int size, const Lettering& lettering);
  void write_dots(int x, int y, std::string_view text, const Lettering& lettering);
  void write_unifont(int x, int y, std::string_view text, const Lettering& lettering);

  Image image_;
  std::set<char32_t> missing_;  // letters
};

}  // namespace lockstep::drawing
