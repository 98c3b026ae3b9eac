#pragma once

// How good detections are: COCO's twelve numbers, as pycocotools computes them, and VOC's average
// precision of 2007 and of 2010. Results are kept picture by picture: those of several devices or
// batches are joined by putting their pictures into one vector, in any order.

#include <lockstep/vision/box.h>

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace lockstep::vision {

/// What is in a picture, and what a model found there. Detections of equal score rank in the order
/// of `found`; one whose score is not a number ranks last.
struct JudgedPicture {
  std::int64_t id = 0;
  std::vector<LabelledBox> truth = {};
  std::vector<Detection> found = {};

  auto fields() { return std::tie(id, truth, found); }  ///< see lockstep/travel.h
};

/// COCO's names for its twelve numbers, in its order: "AP", "AP50", "AP75", "APs", "APm", "APl",
/// "AR1", "AR10", "AR100", "ARs", "ARm", "ARl".
extern const std::array<const char*, 12> kCocoNumbers;

/// Precision and recall of one class at an overlap of 0.5, by falling score: what they are when
/// that detection and all before it are taken. What was found on a crowd is left out.
struct PrecisionRecall {
  std::vector<double> recall = {}, precision = {}, score = {};
};

struct ClassPrecision {
  std::int64_t boxes = 0;                 ///< in the truth, crowds left out
  std::int64_t pictures = 0;              ///< that have such a box
  double ap = -1, ap50 = -1, ar100 = -1;  ///< COCO's for this class alone; -1: no boxes
  double voc2007 = -1, voc2010 = -1;      ///< -1: no boxes, or only difficult ones
  /// At the score where their harmonic mean is highest, at an overlap of 0.5.
  double precision = 0, recall = 0, best_score = 0;
  PrecisionRecall curve = {};
};

struct AveragePrecision {
  std::array<double, 12> coco = {};   ///< -1 where there is nothing to count
  double voc2007 = -1, voc2010 = -1;  ///< means over the classes that have them
  std::int64_t pictures = 0;          ///< that were judged
  std::vector<ClassPrecision> classes = {};
};

/// Judges all pictures of a set. Their order does not matter; each id may be there once only.
/// Labels are from 0 to `classes` - 1.
AveragePrecision average_precision(const std::vector<JudgedPicture>& pictures, int classes);

/// A Markdown table with aligned columns, for people: a row for all classes together, then one a
/// class; and a second table with COCO's twelve numbers and VOC's two. "-" stands for -1. Without
/// names the classes are numbered. Throws ConfigError when there is not one name a class.
std::string precision_table(const AveragePrecision& result,
                            const std::vector<std::string>& classes);

/// Counts [truth][found], classes + 1 each way. The last is the background: a thing that was not
/// found, or a detection where nothing is. Detections of at least `least_score` are paired with
/// things that they overlap by at least `least_overlap`, whatever their classes: best overlaps
/// first, then best scores, and each only once. Crowds and difficult things are left out, and so
/// is what was found on them and on nothing else.
std::vector<std::vector<std::int64_t>> detection_confusion(
    const std::vector<JudgedPicture>& pictures, int classes, double least_score,
    double least_overlap);

}  // namespace lockstep::vision
