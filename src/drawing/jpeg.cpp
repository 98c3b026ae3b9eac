#include <lockstep/error.h>
#include <lockstep/image.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
// After <cstdio>, which it needs.
#include <jpeglib.h>

#include "drawing/png.h"

namespace lockstep {
namespace {

/// libjpeg's error manager for writing, and where to go back to.
struct WritingErrors {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave_writing(j_common_ptr info) {
  auto* errors = reinterpret_cast<WritingErrors*>(info->err);
  errors->base.format_message(info, errors->message);
  std::longjmp(errors->back, 1);
}

/// One file being written. libjpeg leaves a failing call by longjmp, so its calls are made in a
/// function that holds nothing to be destroyed.
class JpegWriter {
 public:
  JpegWriter(const Image& image, int quality) : image_(image), quality_(quality) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave_writing;
    errors_.base.output_message = [](j_common_ptr) {};
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&info_);
    std::free(data_);
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  std::string write() {
    if (!completes()) {
      // libjpeg may have replaced the buffer while it wrote rows, without a word: then it is lost.
      if (info_.next_scanline > 0) data_ = nullptr;
      throw std::runtime_error("an image of " + std::to_string(image_.width) + " x " +
                               std::to_string(image_.height) +
                               " cannot be written as JPEG: " + errors_.message);
    }
    return {reinterpret_cast<const char*>(data_), size_};
  }

 private:
  bool completes() {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_create_compress(&info_);
    jpeg_mem_dest(&info_, &data_, &size_);
    info_.image_width = static_cast<JDIMENSION>(image_.width);
    info_.image_height = static_cast<JDIMENSION>(image_.height);
    info_.input_components = image_.channels;
    info_.in_color_space = image_.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info_);
    jpeg_set_quality(&info_, quality_, TRUE);
    jpeg_start_compress(&info_, TRUE);
    const std::size_t row_bytes =
        std::size_t{info_.image_width} * static_cast<std::size_t>(image_.channels);
    while (info_.next_scanline < info_.image_height) {
      auto* row = const_cast<std::uint8_t*>(image_.pixels.data()) + row_bytes * info_.next_scanline;
      jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
    return true;
  }

  const Image& image_;
  const int quality_;
  WritingErrors errors_{};
  jpeg_compress_struct info_{};
  unsigned char* data_ = nullptr;
  unsigned long size_ = 0;
};

}  // namespace

std::string jpeg(const Image& image, int quality) {
  drawing::check_image(image);
  check(image.channels == 1 || image.channels == 3, "a JPEG image is grey or RGB");
  check(quality >= 1 && quality <= 100, "the quality of a JPEG is from 1 to 100");
  return JpegWriter(image, quality).write();
}

}  // namespace lockstep
