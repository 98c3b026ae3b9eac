#include "vision/exif.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace lockstep::vision {
namespace {

constexpr int kUpright = 1;
constexpr std::uint32_t kOrientationTag = 0x0112, kShort = 3, kLong = 4;

/// Integers at places of a TIFF file; nothing beyond its end.
class TiffReader {
 public:
  TiffReader(std::span<const std::uint8_t> bytes, bool big_endian)
      : bytes_(bytes), big_endian_(big_endian) {}

  std::optional<std::uint32_t> at(std::uint64_t offset, unsigned length) const {
    if (offset > bytes_.size() || bytes_.size() - offset < length) return std::nullopt;
    std::uint32_t value = 0;
    for (unsigned i = 0; i < length; ++i)
      value = value << 8U | bytes_[offset + (big_endian_ ? i : length - 1 - i)];
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool big_endian_;
};

bool begins_with_text(std::span<const std::uint8_t> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

bool swaps_sides(int orientation) { return orientation >= 5 && orientation <= 8; }

}  // namespace

int exif_orientation(std::span<const std::uint8_t> tiff) {
  const bool big_endian = begins_with_text(tiff, "MM");
  if (!big_endian && !begins_with_text(tiff, "II")) return kUpright;
  const TiffReader reader(tiff, big_endian);
  const auto directory = reader.at(4, 4);
  if (reader.at(2, 2) != 42U || !directory) return kUpright;
  const std::uint32_t entries = reader.at(*directory, 2).value_or(0);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::uint64_t entry = std::uint64_t{*directory} + 2 + std::uint64_t{12} * i;
    const auto tag = reader.at(entry, 2);
    if (!tag) break;
    if (*tag != kOrientationTag) continue;
    const auto type = reader.at(entry + 2, 2);
    if (type != kShort && type != kLong) return kUpright;
    const std::uint32_t value = reader.at(entry + 8, type == kShort ? 2 : 4).value_or(kUpright);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : kUpright;
  }
  return kUpright;
}

int app1_orientation(std::span<const std::uint8_t> segment) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  return begins_with_text(segment, kExif) ? exif_orientation(segment.subspan(kExif.size()))
                                          : kUpright;
}

int png_orientation(std::span<const std::uint8_t> file) {
  const TiffReader reader(file, /*big_endian=*/true);
  std::uint64_t chunk = 8;  // after the signature: length, type, content, checksum
  for (;;) {
    const auto length = reader.at(chunk, 4);
    if (!length || file.size() - chunk < 12 || file.size() - chunk - 12 < *length) return kUpright;
    const auto type = file.subspan(chunk + 4, 4);
    if (begins_with_text(type, "IDAT")) return kUpright;
    if (begins_with_text(type, "eXIf")) return exif_orientation(file.subspan(chunk + 8, *length));
    chunk += std::uint64_t{12} + *length;
  }
}

ImageSize upright(ImageSize size, int orientation) {
  if (swaps_sides(orientation)) std::swap(size.width, size.height);
  return size;
}

Image upright(Image stored, int orientation) {
  if (orientation <= kUpright || orientation > 8) return stored;
  const ImageSize size = upright(ImageSize{stored.width, stored.height}, orientation);
  Image result{size.width, size.height, stored.channels, {}};
  result.pixels.resize(stored.pixels.size());
  const auto channels = static_cast<std::ptrdiff_t>(stored.channels);
  const std::ptrdiff_t row = channels * stored.width;
  const std::ptrdiff_t from_right = row - channels, from_bottom = row * (stored.height - 1);
  // Where the upper left pixel is stored, and the ways to its right and lower neighbours.
  const bool right_to_left = orientation == 2 || orientation == 3 || orientation >= 7;
  const bool bottom_up =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  std::ptrdiff_t across = right_to_left ? -channels : channels, down = bottom_up ? -row : row;
  const std::ptrdiff_t first = (right_to_left ? from_right : 0) + (bottom_up ? from_bottom : 0);
  if (swaps_sides(orientation)) std::swap(across, down);
  std::uint8_t* to = result.pixels.data();
  for (int y = 0; y < size.height; ++y)
    for (int x = 0; x < size.width; ++x)
      to = std::copy_n(stored.pixels.data() + (first + y * down + x * across), channels, to);
  return result;
}

}  // namespace lockstep::vision
