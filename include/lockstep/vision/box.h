#pragma once

// Boxes around things in pictures: what a data set says is there, and what a model found.

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace lockstep::vision {

/// A rectangle of a picture, in pixels from its upper left corner; the pixel at (0, 0) goes from 0
/// to 1.
struct Box {
  double left = 0, top = 0, width = 0, height = 0;

  double right() const { return left + width; }
  double bottom() const { return top + height; }
  double area() const { return width * height; }
  bool operator==(const Box&) const = default;
  auto fields() { return std::tie(left, top, width, height); }  ///< see lockstep/travel.h
};

/// The area that two boxes share; 0 where they only touch.
inline double shared_area(const Box& a, const Box& b) {
  const double width = std::min(a.right(), b.right()) - std::max(a.left, b.left);
  const double height = std::min(a.bottom(), b.bottom()) - std::max(a.top, b.top);
  return width <= 0 || height <= 0 ? 0 : width * height;
}

/// Intersection over union, from 0 to 1; 0 for boxes without area.
inline double overlap(const Box& a, const Box& b) {
  const double shared = shared_area(a, b);
  return shared <= 0 ? 0 : shared / (a.area() + b.area() - shared);
}

/// What a data set says of one thing in a picture.
struct LabelledBox {
  Box box = {};
  int label = 0;           ///< the number of its class, from 0
  bool crowd = false;      ///< COCO's iscrowd: many things in one box; not trained on
  bool difficult = false;  ///< VOC's: trained on, but not counted by VOC's evaluation
  double area = 0;         ///< for COCO's ranges of areas: of the mask if the file has one

  auto fields() { return std::tie(box, label, crowd, difficult, area); }  ///< see lockstep/travel.h
};

/// What a model found.
struct Detection {
  Box box = {};
  int label = 0;
  double score = 0;  ///< from 0 to 1

  auto fields() { return std::tie(box, label, score); }  ///< see lockstep/travel.h
};

}  // namespace lockstep::vision
