#include <lockstep/error.h>
#include <lockstep/vision/box_pictures.h>

#include <algorithm>
#include <cmath>

#include "drawing/canvas.h"
#include "vision/class_names.h"
#include "vision/resize.h"

namespace lockstep::vision {
namespace {

/// The picture in the middle of a white square of `side` pixels, as large as it fits.
Image in_square(const Image& picture, int side) {
  const double longest = std::max(picture.width, picture.height);
  const Box square = {(picture.width - longest) / 2, (picture.height - longest) / 2, longest,
                      longest};
  const auto pixels = static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
  std::vector<float> planes(3 * pixels);
  resize_planes(picture, square, side, /*flip=*/false, {255, 255, 255}, planes.data());
  Image result = {side, side, 3, std::vector<std::uint8_t>(3 * pixels)};
  for (std::size_t i = 0; i < pixels; ++i)
    for (std::size_t channel = 0; channel < 3; ++channel)
      result.pixels[3 * i + channel] = static_cast<std::uint8_t>(
          std::lround(std::clamp(planes[channel * pixels + i], 0.F, 255.F)));
  return result;
}

}  // namespace

Image mosaic(const std::vector<Image>& pictures, int columns, int cell,
             const std::vector<std::string>& titles) {
  constexpr int kGap = 8, kScale = 2, kLetter = 6 * kScale;
  check(columns > 0 && cell > 0, "a mosaic has columns and cells");
  check(!pictures.empty(), "a mosaic needs a picture");
  const int count = static_cast<int>(pictures.size());
  columns = std::min(columns, count);
  const int rows = (count + columns - 1) / columns, pitch = cell + kGap;
  const int head = titles.empty() ? 0 : 8 * kScale + kGap;
  drawing::Canvas canvas(columns * pitch + kGap, head + rows * pitch + kGap);
  for (int i = 0; i < std::min(columns, static_cast<int>(titles.size())); ++i) {
    const int most = std::max(0, cell / kLetter - 2);
    const std::string title = shortened(titles[static_cast<std::size_t>(i)], most);
    const int inset = (cell - drawing::text_length(title, kScale)) / 2;
    canvas.write(kGap + i * pitch + inset, kGap, title, {kScale, {32, 32, 32}});
  }
  for (int i = 0; i < count; ++i)
    canvas.place(kGap + i % columns * pitch, head + kGap + i / columns * pitch,
                 in_square(pictures[static_cast<std::size_t>(i)], cell));
  return std::move(canvas).image();
}

}  // namespace lockstep::vision
