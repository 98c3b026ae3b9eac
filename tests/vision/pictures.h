#pragma once

// Small pictures, and their JPEG and PNG files as bytes.

#include <lockstep/image.h>
#include <png.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <vector>
// After <cstdio>, which it needs.
#include <jpeglib.h>
#include <zlib.h>

namespace lockstep::tests {

using Bytes = std::vector<std::uint8_t>;

/// Smooth, so that a JPEG of it is close: red grows to the right, green down, blue falls down.
inline Image gradient(int width, int height, int channels = 3) {
  Image image{width, height, channels, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) {
        const int value = c == 0   ? 255 * x / width
                          : c == 1 ? 255 * y / height
                                   : 255 - 255 * y / height;
        image.pixels.push_back(static_cast<std::uint8_t>(value));
      }
  return image;
}

/// A TIFF header with a directory of two tags: a width, and the orientation.
inline Bytes exif(int orientation, bool big_endian = false) {
  Bytes bytes;
  const auto add = [&](std::uint32_t value, unsigned length) {
    for (unsigned i = 0; i < length; ++i)
      bytes.push_back(static_cast<std::uint8_t>(value >> 8U * (big_endian ? length - 1 - i : i)));
  };
  bytes.assign(2, big_endian ? 'M' : 'I');
  add(42, 2);
  add(8, 4);  // where the directory begins
  add(2, 2);
  for (const auto& [tag, value] : {std::pair{0x0100U, 640U}, {0x0112U, unsigned(orientation)}}) {
    add(tag, 2);
    add(3, 2);  // a short, one of it, then padding
    add(1, 4);
    add(value, 2);
    add(0, 2);
  }
  add(0, 4);
  return bytes;
}

struct JpegKind {
  bool progressive = false;
  J_COLOR_SPACE stored = JCS_YCbCr;  ///< JCS_GRAYSCALE, JCS_CMYK, JCS_YCCK
  bool adobe = true;                 ///< of CMYK: with Adobe's marker, which means inverted
  Bytes exif = {};                   ///< for an APP1 segment; empty: none
};

namespace detail {

/// `image` has the channels of the stored colours.
inline Bytes jpeg_bytes(const Image& image, const JpegKind& kind) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &data, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = image.channels;
  info.in_color_space = image.channels == 1   ? JCS_GRAYSCALE
                        : image.channels == 4 ? JCS_CMYK
                                              : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, kind.stored);
  jpeg_set_quality(&info, 95, TRUE);
  if (kind.progressive) jpeg_simple_progression(&info);
  if (!kind.adobe) info.write_Adobe_marker = FALSE;
  jpeg_start_compress(&info, TRUE);
  if (!kind.exif.empty()) {
    Bytes segment = {'E', 'x', 'i', 'f', 0, 0};
    segment.insert(segment.end(), kind.exif.begin(), kind.exif.end());
    jpeg_write_marker(&info, JPEG_APP0 + 1, segment.data(), static_cast<unsigned>(segment.size()));
  }
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<std::uint8_t*>(image.pixels.data()) +
                std::size_t{info.next_scanline} * info.image_width *
                    static_cast<std::size_t>(image.channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes bytes(data, data + size);
  std::free(data);
  return bytes;
}

struct MakeJpeg {
  Bytes operator()(const Image& image, const JpegKind& kind = {}) const {
    return jpeg_bytes(image, kind);
  }
};

}  // namespace detail

/// jpeg(image, kind): the file's bytes; `image` has the channels of the stored colours. An object,
/// because a function would be mixed up with lockstep::jpeg.
inline constexpr detail::MakeJpeg jpeg = {};

/// `samples` are of libpng's `format`: PNG_FORMAT_GRAY, _RGBA, _LINEAR_RGB (16 bits), ...; a
/// palette has `colours`.
inline Bytes png_file(int width, int height, unsigned format, const void* samples,
                      const Bytes& colours = {}) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<unsigned>(width);
  image.height = static_cast<unsigned>(height);
  image.format = format;
  image.colormap_entries = static_cast<unsigned>(colours.size() / 3);
  Bytes bytes(1U << 20U);
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, samples, 0, colours.data()) == 0)
    throw std::runtime_error(image.message);
  bytes.resize(size);
  return bytes;
}

/// A PNG file with one more chunk behind its header.
inline Bytes with_chunk(const Bytes& png, std::string_view type, const Bytes& content) {
  const auto number = [](unsigned long value) {
    Bytes bytes;
    for (const unsigned shift : {24U, 16U, 8U, 0U})
      bytes.push_back(static_cast<std::uint8_t>(value >> shift));
    return bytes;
  };
  Bytes typed(type.begin(), type.end());
  typed.insert(typed.end(), content.begin(), content.end());
  Bytes chunk = number(content.size());
  chunk.insert(chunk.end(), typed.begin(), typed.end());
  const Bytes checksum = number(crc32(0, typed.data(), static_cast<unsigned>(typed.size())));
  chunk.insert(chunk.end(), checksum.begin(), checksum.end());
  Bytes result = png;
  result.insert(result.begin() + 33, chunk.begin(), chunk.end());  // signature 8, IHDR 25
  return result;
}

}  // namespace lockstep::tests
