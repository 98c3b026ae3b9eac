#pragma once

// What must be true of any set of boxes that a reader gives.

#include <lockstep/vision/box_set.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline void check_box(const lockstep::vision::LabelledBox& box, std::size_t classes) {
  require(box.label >= 0 && static_cast<std::size_t>(box.label) < classes);
  for (const double number :
       {box.box.left, box.box.top, box.box.right(), box.box.bottom(), box.box.area(), box.area})
    require(std::isfinite(number));
  require(box.box.width > 0 && box.box.height > 0 && box.area >= 0);
}

inline void check_boxes(const lockstep::vision::BoxSet& set) {
  require(set.class_ids.size() == set.classes.size());
  for (std::size_t i = 0; i < set.pictures.size(); ++i) {
    const lockstep::vision::BoxedPicture& picture = set.pictures[i];
    require(i == 0 || set.pictures[i - 1].id < picture.id);
    require(picture.size.width >= 0 && picture.size.height >= 0);
    require((picture.size.width == 0) == (picture.size.height == 0));
    require(!picture.path.empty() && !picture.where.empty());
    require(picture.lines.size() == picture.boxes.size());
    for (const std::int64_t line : picture.lines) require(line >= 1);
    for (const auto& box : picture.boxes) check_box(box, set.classes.size());
  }
  for (const std::int64_t count : set.report.counts) require(count >= 0);
  require(set.report.examples.size() <= 8);
  require(set.report.examples.empty() == (set.report.total() == 0));
}
