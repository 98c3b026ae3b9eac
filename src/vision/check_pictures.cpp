#include <lockstep/error.h>
#include <lockstep/vision/box_set.h>

#include <algorithm>
#include <string_view>

#include "vision/box_faults.h"
#include "vision/picture_headers.h"

namespace lockstep::vision {
namespace {

constexpr double kSilentPixels = 1;  // rounding, and writers that count pixels from 0 or from 1

/// "a.json" of "a.json:17".
std::string_view without_line(std::string_view where) {
  const std::size_t colon = where.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == where.size()) return where;
  const bool number = where.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  return number ? where.substr(0, colon) : where;
}

/// How far a box reaches beyond its picture, in pixels, in the direction in which it is farthest.
double distance_beyond(const Box& box, ImageSize size) {
  return std::max({-box.left, -box.top, box.right() - size.width, box.bottom() - size.height});
}

Box cut_to(const Box& box, ImageSize size) {
  const double left = std::max(box.left, 0.0), top = std::max(box.top, 0.0);
  return {left, top, std::min(box.right(), static_cast<double>(size.width)) - left,
          std::min(box.bottom(), static_cast<double>(size.height)) - top};
}

std::string size_text(ImageSize size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height);
}

std::string box_text(const Box& box) {
  return number_text(box.left) + ", " + number_text(box.top) + " to " + number_text(box.right()) +
         ", " + number_text(box.bottom());
}

/// Takes the picture's own size.
void set_size(BoxedPicture& picture, ImageSize size, BoxFaults& faults) {
  const ImageSize said = picture.size;
  picture.size = size;
  if (said.width <= 0 || (said.width == size.width && said.height == size.height)) return;
  const bool turned = said.width == size.height && said.height == size.width;
  faults.add(BoxFault::other_size, picture.where,
             picture.path + " is " + size_text(size) + ", the annotation says " + size_text(said) +
                 (turned ? " (EXIF turns the picture: are its boxes for the upright one?)" : ""));
}

/// Cuts the boxes to the picture, and leaves out those that lie outside.
void cut_boxes(BoxedPicture& picture, BoxFaults& faults) {
  std::vector<LabelledBox> kept;
  for (std::size_t i = 0; i < picture.boxes.size(); ++i) {
    LabelledBox box = picture.boxes[i];
    const auto fail = [&, original = box.box](BoxFault fault, const char* what) {
      const bool has_line = i < picture.lines.size();
      faults.add(fault,
                 has_line ? BoxPlace{without_line(picture.where), picture.lines[i], ""}.where()
                          : picture.where,
                 "a box from " + box_text(original) + what + picture.path + ", which is " +
                     size_text(picture.size));
    };
    const double beyond = distance_beyond(box.box, picture.size);
    const bool own_area = box.area == box.box.area();
    if (beyond > 0) box.box = cut_to(box.box, picture.size);
    if (!(box.box.width > 0 && box.box.height > 0)) {
      fail(BoxFault::outside, " outside of ");
      continue;
    }
    if (beyond > kSilentPixels) fail(BoxFault::beyond, " reaches beyond ");
    if (own_area) box.area = box.box.area();
    kept.push_back(box);
  }
  picture.boxes = std::move(kept);
  picture.lines = {};
}

}  // namespace

void check_pictures(BoxSet& set, OnBadBox on_bad, int workers,
                    const std::function<void(std::int64_t)>& progress) {
  std::vector<std::string> paths;
  for (const BoxedPicture& picture : set.pictures) paths.push_back(picture.path);
  const std::vector<PictureHeader> headers = read_headers(paths, workers, progress);
  BoxFaults faults(on_bad, set.report);
  std::vector<BoxedPicture> kept;
  std::string first_error = "the set is empty";
  for (std::size_t i = 0; i < headers.size(); ++i) {
    BoxedPicture& picture = set.pictures[i];
    if (!headers[i].error.empty()) {
      const std::string error = picture.path + ": " + headers[i].error;
      if (i == 0) first_error = error;
      faults.add(BoxFault::bad_picture, picture.where, error);
      continue;
    }
    set_size(picture, headers[i].size, faults);
    cut_boxes(picture, faults);
    kept.push_back(std::move(picture));
  }
  set.pictures = std::move(kept);
  if (set.pictures.empty())
    throw ConfigError("none of " + std::to_string(headers.size()) +
                      " pictures can be read; the first: " + first_error);
}

}  // namespace lockstep::vision
