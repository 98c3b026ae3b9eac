#include <lockstep/error.h>
#include <lockstep/vision/average_precision.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "vision/judged_class.h"

namespace lockstep::vision {
namespace {

/// The value that a detection is sorted by.
double rank_of(double score) {
  return std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
}

std::vector<const JudgedPicture*> by_rising_id(const std::vector<JudgedPicture>& pictures) {
  std::vector<const JudgedPicture*> result;
  for (const JudgedPicture& picture : pictures) result.push_back(&picture);
  std::ranges::sort(result, {}, &JudgedPicture::id);
  check(std::ranges::adjacent_find(result, {}, &JudgedPicture::id) == result.end(),
        "average_precision: a picture was judged twice");
  return result;
}

/// Where classes gather what a picture has of them.
class Gathering {
 public:
  explicit Gathering(std::vector<JudgedClass>& classes)
      : classes_(classes), last_(classes.size()) {}

  void add(const JudgedPicture& picture) {
    ++pictures_;
    for (const LabelledBox& thing : picture.truth) of(thing.label).truth.push_back(&thing);
    for (const Detection& detection : picture.found)
      of(detection.label).found.push_back(&detection);
  }

 private:
  PictureOfClass& of(int label) {
    check(label >= 0 && static_cast<std::size_t>(label) < classes_.size(),
          "average_precision: a label is not the number of a class");
    const auto at = static_cast<std::size_t>(label);
    if (last_[at] != pictures_) classes_[at].pictures.emplace_back();
    last_[at] = pictures_;
    return classes_[at].pictures.back();
  }

  std::vector<JudgedClass>& classes_;
  std::vector<std::size_t> last_;  // the number of the last picture that has some of a class
  std::size_t pictures_ = 0;
};

void rank_detections(JudgedClass& judged) {
  for (PictureOfClass& picture : judged.pictures) {
    std::ranges::stable_sort(picture.found, std::greater{},
                             [](const Detection* detection) { return rank_of(detection->score); });
    for (std::size_t i = 0; i < picture.found.size(); ++i)
      judged.order.push_back({judged.order.size(), i, picture.found[i]->score});
  }
  std::ranges::stable_sort(judged.order, std::greater{}, [](const RankedDetection& detection) {
    return rank_of(detection.score);
  });
}

double mean_over_overlaps(const std::array<double, kCocoOverlaps>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// A mean over classes that have a value; -1: none has.
class ClassMean {
 public:
  void add(double value) {
    sum_ += value;
    ++count_;
  }
  double value() const { return count_ == 0 ? -1 : sum_ / count_; }

 private:
  double sum_ = 0, count_ = 0;
};

/// COCO's twelve numbers. All classes weigh the same.
std::array<double, 12> coco_summary(const std::vector<CocoClass>& classes) {
  std::array<ClassMean, 12> means;
  for (const CocoClass& one : classes) {
    if (const CocoView& view = one.views[2]; view.counts) {
      means[0].add(mean_over_overlaps(view.precision));
      means[1].add(view.precision[0]);
      means[2].add(view.precision[5]);
    }
    for (std::size_t i = 0; i < one.views.size(); ++i) {
      const CocoView& view = one.views[i];
      if (!view.counts) continue;
      if (i >= 3) means[i].add(mean_over_overlaps(view.precision));
      means[6 + i].add(mean_over_overlaps(view.recall));
    }
  }
  std::array<double, 12> result;
  std::ranges::transform(means, result.begin(), &ClassMean::value);
  return result;
}

/// Sets precision, recall and score where their harmonic mean is highest. A score takes all
/// detections that have it, so only the last of equals is looked at.
void set_best(ClassPrecision& one) {
  const PrecisionRecall& curve = one.curve;
  double best = 0;
  for (std::size_t i = 0; i < curve.score.size(); ++i) {
    if (i + 1 < curve.score.size() && curve.score[i + 1] == curve.score[i]) continue;
    const double precision = curve.precision[i], recall = curve.recall[i];
    if (precision + recall == 0) continue;
    const double mean = 2 * precision * recall / (precision + recall);
    if (!(mean > best)) continue;
    best = mean;
    one.precision = precision;
    one.recall = recall;
    one.best_score = curve.score[i];
  }
}

ClassPrecision class_precision(const JudgedClass& judged, CocoClass coco) {
  ClassPrecision result;
  for (const PictureOfClass& picture : judged.pictures) {
    const auto boxes = std::ranges::count(picture.truth, false, &LabelledBox::crowd);
    result.boxes += boxes;
    result.pictures += boxes > 0;
  }
  if (const CocoView& view = coco.views[2]; view.counts) {
    result.ap = mean_over_overlaps(view.precision);
    result.ap50 = view.precision[0];
    result.ar100 = mean_over_overlaps(view.recall);
  }
  const VocClass voc = voc_class(judged);
  result.voc2007 = voc.of2007;
  result.voc2010 = voc.of2010;
  result.curve = std::move(coco.curve);
  set_best(result);
  return result;
}

}  // namespace

const std::array<const char*, 12> kCocoNumbers = {"AP",  "AP50", "AP75",  "APs", "APm", "APl",
                                                  "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"};

std::vector<JudgedClass> by_class(const std::vector<JudgedPicture>& pictures, int classes) {
  check(classes >= 0, "average_precision: the number of classes is below 0");
  std::vector<JudgedClass> result(static_cast<std::size_t>(classes));
  Gathering gathering(result);
  for (const JudgedPicture* picture : by_rising_id(pictures)) gathering.add(*picture);
  for (JudgedClass& judged : result) rank_detections(judged);
  return result;
}

AveragePrecision average_precision(const std::vector<JudgedPicture>& pictures, int classes) {
  AveragePrecision result;
  result.pictures = static_cast<std::int64_t>(pictures.size());
  std::vector<CocoClass> coco;
  ClassMean of2007, of2010;
  for (const JudgedClass& judged : by_class(pictures, classes)) {
    coco.push_back(coco_class(judged));
    result.classes.push_back(class_precision(judged, coco.back()));
    if (const ClassPrecision& last = result.classes.back(); last.voc2007 >= 0) {
      of2007.add(last.voc2007);
      of2010.add(last.voc2010);
    }
  }
  result.coco = coco_summary(coco);
  result.voc2007 = of2007.value();
  result.voc2010 = of2010.value();
  return result;
}

}  // namespace lockstep::vision
