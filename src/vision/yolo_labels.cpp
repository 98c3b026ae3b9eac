#include "vision/yolo_labels.h"

#include <array>
#include <optional>

#include "vision/data_files.h"

namespace lockstep::vision {
namespace {

constexpr std::size_t kYoloColumns = 5;

/// One label file being read.
class YoloLines {
 public:
  YoloLines(const std::string& path, const std::vector<int>& labels, BoxFaults& faults,
            BoxedPicture& picture)
      : path_(path), labels_(labels), faults_(faults), picture_(picture) {}

  void take(std::string_view line, std::int64_t number) {
    const BoxPlace place{path_, number, ""};
    const std::vector<std::string_view> columns = split_words(line);
    if (columns.size() != kYoloColumns)
      return fail(
          place,
          std::to_string(columns.size()) + " columns, expected class, x, y, width and height" +
              (columns.size() > kYoloColumns ? "; a polygon or a score? Convert the labels to boxes"
                                             : ""));
    const auto box = read_box(columns, place);
    if (!box) return;
    const auto label = read_label(columns[0], place);
    if (!label) return;
    boxes_.add({.box = *box, .label = *label, .area = box->area()}, place, faults_, picture_);
  }

 private:
  std::optional<Box> read_box(const std::vector<std::string_view>& columns, const BoxPlace& place) {
    constexpr std::array<const char*, kYoloColumns> kNames = {"class", "x", "y", "width", "height"};
    std::array<double, kYoloColumns> values = {};
    for (std::size_t i = 1; i < kYoloColumns; ++i) {
      const auto value = to_number(columns[i]);
      // More than that is no part of a picture, but pixels, or no number at all.
      if (!value || !(*value >= -kMostPart && *value <= kMostPart)) {
        fail(place, std::string(kNames[i]) + ": " + in_quotes(columns[i]) +
                        ", expected a part of the picture, from 0 to 1");
        return std::nullopt;
      }
      values[i] = *value;
    }
    const double width = picture_.size.width, height = picture_.size.height;
    return Box{(values[1] - values[3] / 2) * width, (values[2] - values[4] / 2) * height,
               values[3] * width, values[4] * height};
  }

  std::optional<int> read_label(std::string_view text, const BoxPlace& place) {
    const auto number = to_whole(text);
    if (!number || *number < 0) {
      fail(place, "class: " + in_quotes(text) + ", expected a number from 0");
      return std::nullopt;
    }
    const bool named = *number < static_cast<std::int64_t>(labels_.size());
    const int label = named ? labels_[static_cast<std::size_t>(*number)] : -1;
    if (label >= 0) return label;
    faults_.add(
        BoxFault::unknown_class, place.where(),
        "class: " + std::to_string(*number) +
            (named ? " is not one of the classes that are used"
                   : ", but \"names\" has " + std::to_string(labels_.size()) + " classes, from 0"));
    return std::nullopt;
  }

  void fail(const BoxPlace& place, const std::string& what) {
    faults_.add(BoxFault::bad_annotation, place.where(), what);
  }

  static constexpr double kMostPart = 10;

  const std::string& path_;
  const std::vector<int>& labels_;
  BoxFaults& faults_;
  BoxedPicture& picture_;
  PictureBoxes boxes_;
};

}  // namespace

void parse_yolo_labels(const std::string& path, std::string_view text,
                       const std::vector<int>& labels, BoxFaults& faults, BoxedPicture& picture) {
  YoloLines lines(path, labels, faults, picture);
  for_each_line(text,
                [&](std::string_view line, std::int64_t number) { lines.take(line, number); });
}

}  // namespace lockstep::vision
