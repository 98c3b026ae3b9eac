#pragma once

#include <lockstep/image.h>

namespace lockstep::drawing {

/// Throws std::logic_error unless png() can show the image.
void check_image(const Image& image);

}  // namespace lockstep::drawing
