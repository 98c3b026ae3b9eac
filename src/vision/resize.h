#pragma once

#include <lockstep/image.h>
#include <lockstep/vision/box.h>

#include <array>

namespace lockstep::vision {

/// Writes a box of an RGB image in place, resized to [3, size, size], as values from 0 to 255.
/// Bilinear; where it shrinks, the filter is widened to cover every pixel. Pixels whose centre lies
/// outside of the image are `outside`.
void resize_planes(const Image& from, const Box& box, int size, bool flip,
                   const std::array<float, 3>& outside, float* to);

}  // namespace lockstep::vision
