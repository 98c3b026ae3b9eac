#pragma once

// EXIF's orientation: how a picture has to be turned to stand upright. A parser for this one number
// instead of libexif, which would be a dependency for it. Bad EXIF data counts as none.

#include <lockstep/image.h>
#include <lockstep/vision/image_file.h>

#include <cstdint>
#include <span>

namespace lockstep::vision {

/// From 1 (upright) to 8, as EXIF counts them. `tiff` begins with the byte order, "II" or "MM".
int exif_orientation(std::span<const std::uint8_t> tiff);

/// Of a JPEG's APP1 segment, which may as well hold something else.
int app1_orientation(std::span<const std::uint8_t> segment);

/// Of a PNG file's eXIf chunk. It has to come before the pixels, as everybody writes it, so that
/// the beginning of a file tells its upright size.
int png_orientation(std::span<const std::uint8_t> file);

/// The size of a picture that is stored with `size`.
ImageSize upright(ImageSize size, int orientation);

/// Turns and mirrors a picture as stored.
Image upright(Image stored, int orientation);

}  // namespace lockstep::vision
