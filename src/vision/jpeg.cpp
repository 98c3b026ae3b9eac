#include "vision/jpeg.h"

#include <lockstep/error.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
// After <cstdio>, which it needs.
#include <jerror.h>
#include <jpeglib.h>

namespace lockstep::vision {
namespace {

constexpr int kMostScans = 100;  // a progressive file has about ten; each costs a pass

/// libjpeg's error manager, and where to go back to.
struct ErrorManager {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  manager->base.format_message(info, manager->message);
  std::longjmp(manager->back, 1);
}

/// A warning that pixels are missing or wrong is an error. Some say less than that.
void warn(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
      return;
    default:
      leave(info);
  }
}

void limit_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  info->err->msg_code = JERR_BAD_PROGRESSION;
  leave(info);
}

/// One file being decoded. libjpeg leaves a failing call by longjmp, so its calls are made in steps
/// that hold nothing to be destroyed.
class Jpeg {
 public:
  Jpeg(const std::string& path, std::span<const std::uint8_t> bytes) : path_(path), bytes_(bytes) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave;
    errors_.base.emit_message = warn;
    errors_.base.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = limit_scans;
  }
  ~Jpeg() { jpeg_destroy_decompress(&info_); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  ImageSize read_header() {
    run([](Jpeg& jpeg) {
      jpeg_create_decompress(&jpeg.info_);
      jpeg.info_.progress = &jpeg.progress_;
      jpeg_mem_src(&jpeg.info_, jpeg.bytes_.data(), jpeg.bytes_.size());
      jpeg_read_header(&jpeg.info_, TRUE);
    });
    check_size(path_, info_.image_width, info_.image_height);
    return {static_cast<int>(info_.image_width), static_cast<int>(info_.image_height)};
  }

  Image decode(int short_side) {
    const ImageSize size = read_header();
    if (info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK)
      throw CorruptFile(path_, 0, "a JPEG image in RGB or grey, not in CMYK: convert it");
    info_.out_color_space = JCS_RGB;
    info_.scale_denom = 8;
    info_.scale_num = 8;
    while (info_.scale_num > 1 && short_side > 0 &&
           std::int64_t{std::min(size.width, size.height)} * (info_.scale_num / 2) >=
               std::int64_t{8} * short_side)
      info_.scale_num /= 2;
    run([](Jpeg& jpeg) { jpeg_start_decompress(&jpeg.info_); });
    Image image{static_cast<int>(info_.output_width), static_cast<int>(info_.output_height), 3, {}};
    image.pixels.resize(std::size_t{3} * info_.output_width * info_.output_height);
    row_ = image.pixels.data();
    run([](Jpeg& jpeg) {
      while (jpeg.info_.output_scanline < jpeg.info_.output_height) {
        jpeg.row_ += std::size_t{3} * jpeg.info_.output_width *
                     jpeg_read_scanlines(&jpeg.info_, &jpeg.row_, 1);
      }
      jpeg_finish_decompress(&jpeg.info_);
    });
    return image;
  }

 private:
  using Step = void (*)(Jpeg&);

  bool completes(Step step) {
    if (setjmp(errors_.back) != 0) return false;
    step(*this);
    return true;
  }

  void run(Step step) {
    if (completes(step)) return;
    const std::size_t left = info_.src ? info_.src->bytes_in_buffer : bytes_.size();
    throw CorruptFile(path_, bytes_.size() - std::min(left, bytes_.size()),
                      std::string("a whole JPEG image (libjpeg: ") + errors_.message + ")");
  }

  const std::string& path_;
  const std::span<const std::uint8_t> bytes_;
  ErrorManager errors_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
  std::uint8_t* row_ = nullptr;
};

}  // namespace

ImageSize jpeg_size(const std::string& path, std::span<const std::uint8_t> bytes) {
  return Jpeg(path, bytes).read_header();
}

Image decode_jpeg(const std::string& path, std::span<const std::uint8_t> bytes, int short_side) {
  return Jpeg(path, bytes).decode(short_side);
}

}  // namespace lockstep::vision
