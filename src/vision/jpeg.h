#pragma once

#include <lockstep/vision/image_file.h>

namespace lockstep::vision {

/// As image_size and decode_image, for bytes that begin like a JPEG.
ImageSize jpeg_size(const std::string& path, std::span<const std::uint8_t> bytes);
Image decode_jpeg(const std::string& path, std::span<const std::uint8_t> bytes, int short_side);

/// Throws CorruptFile unless an image has pixels, and at most kMostPixels.
void check_size(const std::string& path, std::int64_t width, std::int64_t height);

}  // namespace lockstep::vision
