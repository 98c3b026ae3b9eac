#include "vision/jpeg.h"

#include <lockstep/error.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <utility>
// After <cstdio>, which it needs.
#include <jerror.h>
#include <jpeglib.h>

#include "vision/exif.h"

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

/// From inks to light. Adobe's programs, and all who follow them, store how much ink is missing.
Image cmyk_to_rgb(const Image& inks, bool inverted) {
  Image image{inks.width, inks.height, 3, {}};
  image.pixels.reserve(inks.pixels.size() / 4 * 3);
  const auto light = [inverted](std::uint8_t value) { return inverted ? value : 255 - value; };
  for (std::size_t i = 0; i < inks.pixels.size(); i += 4)
    for (std::size_t c = 0; c < 3; ++c)
      image.pixels.push_back(static_cast<std::uint8_t>(
          (light(inks.pixels[i + c]) * light(inks.pixels[i + 3]) + 127) / 255));
  return image;
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

  /// As stored.
  ImageSize read_header() {
    run([](Jpeg& jpeg) {
      jpeg_create_decompress(&jpeg.info_);
      jpeg.info_.progress = &jpeg.progress_;
      jpeg_mem_src(&jpeg.info_, jpeg.bytes_.data(), jpeg.bytes_.size());
      jpeg_save_markers(&jpeg.info_, kExifMarker, 0xffff);
      jpeg_read_header(&jpeg.info_, TRUE);
      jpeg_save_markers(&jpeg.info_, kExifMarker, 0);
    });
    check_size(path_, info_.image_width, info_.image_height);
    return {static_cast<int>(info_.image_width), static_cast<int>(info_.image_height)};
  }

  /// Between read_header and the pixels: of the first segment that says one.
  int orientation() const {
    for (const jpeg_marker_struct* marker = info_.marker_list; marker; marker = marker->next)
      if (const int found = app1_orientation({marker->data, marker->data_length}); found != 1)
        return found;
    return 1;
  }

  Image decode(int short_side) {
    const ImageSize size = read_header();
    const int turned = orientation();
    const bool adobe = info_.saw_Adobe_marker != 0;
    const bool cmyk = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    info_.scale_denom = 8;
    info_.scale_num = 8;
    while (info_.scale_num > 1 && short_side > 0 &&
           std::int64_t{std::min(size.width, size.height)} * (info_.scale_num / 2) >=
               std::int64_t{8} * short_side)
      info_.scale_num /= 2;
    Image stored = read_pixels(cmyk ? 4 : 3);
    if (cmyk) stored = cmyk_to_rgb(stored, adobe);
    return upright(std::move(stored), turned);
  }

 private:
  using Step = void (*)(Jpeg&);
  static constexpr int kExifMarker = JPEG_APP0 + 1;

  Image read_pixels(int channels) {
    run([](Jpeg& jpeg) { jpeg_start_decompress(&jpeg.info_); });
    Image image{
        static_cast<int>(info_.output_width), static_cast<int>(info_.output_height), channels, {}};
    row_bytes_ = static_cast<std::size_t>(channels) * info_.output_width;
    image.pixels.resize(row_bytes_ * info_.output_height);
    row_ = image.pixels.data();
    run([](Jpeg& jpeg) {
      while (jpeg.info_.output_scanline < jpeg.info_.output_height)
        jpeg.row_ += jpeg.row_bytes_ * jpeg_read_scanlines(&jpeg.info_, &jpeg.row_, 1);
      jpeg_finish_decompress(&jpeg.info_);
    });
    return image;
  }

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
  std::size_t row_bytes_ = 0;
};

}  // namespace

ImageSize jpeg_size(const std::string& path, std::span<const std::uint8_t> bytes) {
  Jpeg jpeg(path, bytes);
  const ImageSize stored = jpeg.read_header();
  return upright(stored, jpeg.orientation());
}

Image decode_jpeg(const std::string& path, std::span<const std::uint8_t> bytes, int short_side) {
  return Jpeg(path, bytes).decode(short_side);
}

}  // namespace lockstep::vision
