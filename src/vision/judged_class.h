#pragma once

// The pictures of a set seen from one class, and how COCO and VOC judge what was found of it.

#include <lockstep/vision/average_precision.h>

#include <cstddef>

namespace lockstep::vision {

/// What a detection counts as.
enum class Outcome : std::uint8_t { wrong, right, ignored };

/// What one picture has of the class.
struct PictureOfClass {
  std::vector<const LabelledBox*> truth = {};
  std::vector<const Detection*> found = {};  ///< by falling score, ties in their old order
};

/// A detection among all of its class.
struct RankedDetection {
  std::size_t place = 0;  ///< its number when the detections of all pictures are joined
  std::size_t rank = 0;   ///< its number in its picture
  double score = 0;
};

struct JudgedClass {
  std::vector<PictureOfClass> pictures = {};  ///< those that have some of it, by rising id
  std::vector<RankedDetection> order = {};    ///< by falling score, ties as they are joined
};

/// Sorts the pictures by id and tells classes apart. Points into `pictures`. Throws
/// std::logic_error when an id is there twice or a label is not one.
std::vector<JudgedClass> by_class(const std::vector<JudgedPicture>& pictures, int classes);

inline constexpr std::size_t kCocoOverlaps = 10;

/// One class under one of COCO's limits: of area, and of detections a picture.
struct CocoView {
  bool counts = false;  ///< whether there is a box to be found
  std::array<double, kCocoOverlaps> precision = {}, recall = {};  ///< by least overlap
};

struct CocoClass {
  /// All areas with 1, 10 and 100 detections; small, medium and large areas with 100.
  std::array<CocoView, 6> views = {};
  PrecisionRecall curve = {};
};

CocoClass coco_class(const JudgedClass& judged);

struct VocClass {
  double of2007 = -1, of2010 = -1;
};

VocClass voc_class(const JudgedClass& judged);

}  // namespace lockstep::vision
