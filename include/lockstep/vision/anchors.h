#pragma once

// Anchors: the boxes at fixed places that a single-shot detector starts from. How they are laid
// out, which of them belongs to which thing in a picture, and how a box is written relative to its
// anchor. All as TensorFlow's Object Detection API does it, except that a thing without area never
// takes an anchor. Coordinates are parts of the picture: 0 is its upper or left edge, 1 the
// opposite one.

#include <lockstep/vision/box.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::vision {

/// A box by its edges. An anchor may reach beyond the picture.
struct Corners {
  float top = 0, left = 0, bottom = 0, right = 0;
};

/// Intersection over union; 0 for boxes without area.
double overlap(const Corners& a, const Corners& b);

/// A grid a feature map, from fine to coarse. Map k has the scale min + (max - min) * k / (maps -
/// 1); each cell has one anchor a ratio (width / height), and a square one whose scale is between
/// this map's and the next one's. The finest map has three only: half of the smallest scale, and
/// the ratios 2 and 0.5.
struct AnchorOptions {
  std::vector<int> grids = {19, 10, 5, 3, 2, 1};  ///< cells in each direction
  double min_scale = 0.2, max_scale = 0.95;
  std::vector<double> ratios = {1, 2, 0.5, 3, 0.3333};
  bool reduce_finest = true;
};

/// By map, row, column, then ratio. Not cut at the picture's edges. Throws ConfigError for options
/// that make no anchors.
std::vector<Corners> make_anchors(const AnchorOptions& options = {});

/// How many a cell of map `map` has.
int anchors_per_cell(const AnchorOptions& options, std::size_t map);

/// A box relative to an anchor: centre y, centre x, height, width.
using BoxCode = std::array<float, 4>;

BoxCode encode(const Corners& box, const Corners& anchor);
Corners decode(const BoxCode& code, const Corners& anchor);

struct MatchOptions {
  double overlap = 0.5;  ///< at least that much: the anchor belongs to the thing it overlaps most
  bool force = true;     ///< every thing gets the anchor that it overlaps most, however little
};

/// For each anchor the number of its thing, or -1: background. Of equal overlaps the lower number
/// counts. An anchor that two things force goes to the lower one. Things without area get none.
std::vector<int> match(std::span<const Corners> anchors, std::span<const Corners> things,
                       const MatchOptions& options = {});

/// What a model is trained to say of a picture's anchors.
struct Targets {
  std::vector<std::int64_t> labels;  ///< an anchor: 0 background, else the class counted from 1
  std::vector<BoxCode> codes;        ///< an anchor: of its thing; zeros for background
};

/// `things` and their `labels`, which count from 0.
Targets make_targets(std::span<const Corners> anchors, std::span<const Corners> things,
                     std::span<const int> labels, const MatchOptions& options = {});

/// Greedy suppression: goes through boxes by falling score (lower number first where equal), and
/// keeps those that overlap no kept one by more than `most_overlap`. Boxes without area, or that
/// are not finite, overlap nothing. Returns the numbers of at most `most` kept ones, in that order.
std::vector<int> suppress(std::span<const Corners> boxes, std::span<const float> scores,
                          double most_overlap, int most);

struct MiningOptions {
  double most_overlap = 0.99;  ///< of the boxes predicted for two anchors; else one is left out
  double negatives_per_positive = 3;
  int min_negatives = 0;  ///< of a picture
  int most = 3000;        ///< anchors that are left after suppression
};

/// Hard example mining in one picture: 1 for each anchor that counts in the loss. `losses` are
/// those of the classes, `boxes` the predicted ones, `labels` as in Targets. Anchors are suppressed
/// by their losses; of what is left, all positives count and the hardest negatives.
std::vector<std::uint8_t> mine(std::span<const float> losses, std::span<const Corners> boxes,
                               std::span<const std::int64_t> labels, const MiningOptions& options);

struct DetectionOptions {
  double least_score = 1e-8;  ///< detections score more
  double most_overlap = 0.6;  ///< of two detections of a class
  int most_per_class = 100;
  int most = 100;
};

/// From what a model says of the anchors of one picture to detections in pixels, by falling score;
/// of equal scores the lower class, then the lower anchor comes first. Each class is suppressed on
/// its own. Boxes are cut at the picture's edges, and those without area are left out. `scores` are
/// [anchors][classes + 1] from 0 to 1, background first.
std::vector<Detection> detections(std::span<const Corners> anchors, std::span<const BoxCode> codes,
                                  std::span<const float> scores, int classes, double width,
                                  double height, const DetectionOptions& options = {});

}  // namespace lockstep::vision
