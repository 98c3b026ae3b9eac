#include "vision/judged_class.h"

#include <algorithm>
#include <limits>

// The rules are those of pycocotools' COCOeval, to the last bit of each threshold: results differ
// by the rounding of means only.

namespace lockstep::vision {
namespace {

constexpr std::size_t kCocoRecalls = 101, kMostDetections = 100;

struct AreaRange {
  double least, most;

  bool holds(double area) const { return area >= least && area <= most; }
};
constexpr std::array<AreaRange, 4> kAreaRanges = {
    {{0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}}};

struct ViewLimits {
  std::size_t area, detections;
};
constexpr std::array<ViewLimits, 6> kCocoViews = {
    {{0, 1}, {0, 10}, {0, 100}, {1, 100}, {2, 100}, {3, 100}}};

/// As numpy's linspace(0.5, 0.95, 10) rounds them: the ninth is just below 0.9.
double least_overlap_at(std::size_t step) {
  constexpr double kStep = (0.95 - 0.5) / 9;
  return step + 1 == kCocoOverlaps ? 0.95 : 0.5 + static_cast<double>(step) * kStep;
}

/// As numpy's linspace(0, 1, 101) rounds them.
double recall_at(std::size_t step) { return static_cast<double>(step) * 0.01; }

double coco_overlap(const Box& found, const LabelledBox& thing) {
  if (!thing.crowd) return overlap(found, thing.box);
  const double shared = shared_area(found, thing.box);
  return shared <= 0 ? 0 : shared / found.area();
}

/// One picture's part of a class: its things in the order in which COCO looks at them for a range
/// of areas, and what detections overlap.
class PictureMatcher {
 public:
  explicit PictureMatcher(const PictureOfClass& picture)
      : picture_(picture), found_(std::min(picture.found.size(), kMostDetections)) {
    for (std::size_t i = 0; i < found_; ++i)
      for (const LabelledBox* thing : picture.truth)
        overlaps_.push_back(coco_overlap(picture.found[i]->box, *thing));
  }

  /// How many things are to be found in the range. The others come last and are ignored.
  std::size_t set_range(const AreaRange& range) {
    range_ = range;
    things_.clear();
    for (const bool ignored : {false, true}) {
      if (ignored) counted_ = things_.size();
      for (std::size_t i = 0; i < picture_.truth.size(); ++i) {
        const LabelledBox& thing = *picture_.truth[i];
        if ((thing.crowd || !range.holds(thing.area)) == ignored) things_.push_back(i);
      }
    }
    return counted_;
  }

  /// Writes the outcome of each detection that COCO looks at, in place.
  void match(double least_overlap, Outcome* outcomes) {
    taken_.assign(things_.size(), false);
    for (std::size_t i = 0; i < found_; ++i) {
      const std::size_t thing = best(i, least_overlap);
      if (thing == things_.size()) {
        const bool counts = range_.holds(picture_.found[i]->box.area());
        outcomes[i] = counts ? Outcome::wrong : Outcome::ignored;
      } else {
        taken_[thing] = true;
        outcomes[i] = thing < counted_ ? Outcome::right : Outcome::ignored;
      }
    }
  }

 private:
  /// The thing that a detection is matched with, as a place in things_; its size if there is none.
  /// Of equal overlaps the last wins.
  std::size_t best(std::size_t detection, double least_overlap) const {
    double least = std::min(least_overlap, 1 - 1e-10);
    std::size_t result = things_.size();
    for (std::size_t i = 0; i < things_.size(); ++i) {
      if (i == counted_ && result < counted_) break;
      if (taken_[i] && !picture_.truth[things_[i]]->crowd) continue;
      const double value = overlaps_[detection * things_.size() + things_[i]];
      if (!(value >= least)) continue;
      least = value;
      result = i;
    }
    return result;
  }

  const PictureOfClass& picture_;
  std::size_t found_;  // that COCO looks at
  std::vector<double> overlaps_ = {};
  AreaRange range_ = {};
  std::vector<std::size_t> things_ = {};
  std::size_t counted_ = 0;  // the first so many of things_
  std::vector<bool> taken_ = {};
};

/// Of all detections of a class, by area and least overlap, in the order of their places.
struct CocoOutcomes {
  std::array<std::array<std::vector<Outcome>, kCocoOverlaps>, kAreaRanges.size()> by = {};
  std::array<std::int64_t, kAreaRanges.size()> boxes = {};
};

CocoOutcomes coco_outcomes(const JudgedClass& judged) {
  CocoOutcomes result;
  for (auto& by_overlap : result.by)
    for (auto& outcomes : by_overlap) outcomes.resize(judged.order.size());
  std::size_t place = 0;
  for (const PictureOfClass& picture : judged.pictures) {
    PictureMatcher matcher(picture);
    for (std::size_t area = 0; area < kAreaRanges.size(); ++area) {
      result.boxes[area] += static_cast<std::int64_t>(matcher.set_range(kAreaRanges[area]));
      for (std::size_t step = 0; step < kCocoOverlaps; ++step)
        matcher.match(least_overlap_at(step), result.by[area][step].data() + place);
    }
    place += picture.found.size();
  }
  return result;
}

double coco_precision_of(double right, double wrong) {
  return right / (wrong + right + std::numeric_limits<double>::epsilon());
}

/// The mean precision at 101 recalls: at each the best that is reached there or later. Between two
/// right detections precision only falls, so `precision` has those of right ones alone; in place.
double mean_precision(std::vector<double>& precision, double boxes) {
  for (std::size_t i = precision.size(); i-- > 1;)
    precision[i - 1] = std::max(precision[i - 1], precision[i]);
  double sum = 0;
  std::size_t at = 0;
  for (std::size_t step = 0; step < kCocoRecalls; ++step) {
    while (at < precision.size() && static_cast<double>(at + 1) / boxes < recall_at(step)) ++at;
    if (at == precision.size()) break;
    sum += precision[at];
  }
  return sum / static_cast<double>(kCocoRecalls);
}

CocoView coco_view(const JudgedClass& judged, const CocoOutcomes& outcomes,
                   const ViewLimits& limits) {
  const auto boxes = static_cast<double>(outcomes.boxes[limits.area]);
  if (boxes == 0) return {};
  CocoView view = {.counts = true};
  std::vector<double> precision;
  for (std::size_t step = 0; step < kCocoOverlaps; ++step) {
    const std::vector<Outcome>& of = outcomes.by[limits.area][step];
    precision.clear();
    double right = 0, wrong = 0;
    for (const RankedDetection& detection : judged.order) {
      if (detection.rank >= limits.detections || of[detection.place] == Outcome::ignored) continue;
      if (of[detection.place] == Outcome::right)
        precision.push_back(coco_precision_of(++right, wrong));
      else
        ++wrong;
    }
    view.recall[step] = right / boxes;
    view.precision[step] = mean_precision(precision, boxes);
  }
  return view;
}

PrecisionRecall coco_curve(const JudgedClass& judged, const CocoOutcomes& outcomes) {
  PrecisionRecall curve;
  const auto boxes = static_cast<double>(outcomes.boxes[0]);
  if (boxes == 0) return curve;
  double right = 0, wrong = 0;
  for (const RankedDetection& detection : judged.order) {
    const Outcome outcome = outcomes.by[0][0][detection.place];
    if (detection.rank >= kMostDetections || outcome == Outcome::ignored) continue;
    ++(outcome == Outcome::right ? right : wrong);
    curve.recall.push_back(right / boxes);
    curve.precision.push_back(right / (right + wrong));
    curve.score.push_back(detection.score);
  }
  return curve;
}

}  // namespace

CocoClass coco_class(const JudgedClass& judged) {
  const CocoOutcomes outcomes = coco_outcomes(judged);
  CocoClass result;
  for (std::size_t i = 0; i < kCocoViews.size(); ++i)
    result.views[i] = coco_view(judged, outcomes, kCocoViews[i]);
  result.curve = coco_curve(judged, outcomes);
  return result;
}

}  // namespace lockstep::vision
