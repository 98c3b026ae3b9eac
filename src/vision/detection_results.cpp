#include <lockstep/error.h>
#include <lockstep/vision/box_pictures.h>
#include <lockstep/vision/detection_results.h>
#include <lockstep/vision/image_file.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>

#include "base/file.h"

namespace lockstep::vision {
namespace {

constexpr double kConfusionOverlap = 0.5;

std::string two_digits(double value) {
  char text[32] = {};
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

/// The first pictures of the set that have boxes, truth on the left, detections on the right.
Image beside_truth(const DetectionResults& results, const BoxSet& set,
                   const DetectionSummary& how) {
  std::map<std::int64_t, const BoxedPicture*> by_id;
  for (const BoxedPicture& picture : set.pictures) by_id[picture.id] = &picture;
  std::vector<const JudgedPicture*> order;
  for (const JudgedPicture& judged : results.pictures)
    if (!judged.truth.empty()) order.push_back(&judged);
  std::ranges::sort(order, {}, &JudgedPicture::id);
  std::vector<Image> cells;
  for (const JudgedPicture* judged : order) {
    if (cells.size() >= 2 * static_cast<std::size_t>(how.pictures)) break;
    const std::string& path = by_id.at(judged->id)->path;
    try {
      Image truth = decode_image(path, base::read_bytes(path, std::uint64_t{256} << 20U));
      Image found = truth;
      draw_boxes(truth, drawn(judged->truth, set.classes));
      draw_boxes(found, drawn(judged->found, set.classes, how.least_score));
      cells.push_back(std::move(truth));
      cells.push_back(std::move(found));
    } catch (const CorruptFile&) {
      continue;
    }
  }
  if (cells.empty()) return {};
  return mosaic(cells, 4, 300, {"truth", "found", "truth", "found"});
}

}  // namespace

DetectionResults& DetectionResults::operator+=(const DetectionResults& other) {
  metrics += other.metrics;
  pictures.insert(pictures.end(), other.pictures.begin(), other.pictures.end());
  return *this;
}

std::vector<JudgedPicture> judged(const BoxSet& set, const torch::Tensor& pictures,
                                  const std::vector<std::vector<Detection>>& found) {
  const auto number = pictures.accessor<std::int64_t, 1>();
  std::vector<JudgedPicture> result;
  for (std::size_t row = 0; row < found.size(); ++row) {
    if (number[static_cast<std::int64_t>(row)] < 0) continue;
    const BoxedPicture& picture =
        set.pictures.at(static_cast<std::size_t>(number[static_cast<std::int64_t>(row)]));
    result.push_back({picture.id, picture.boxes, found[row]});
  }
  return result;
}

Summary summarise(const DetectionResults& results, const BoxSet& set, const DetectionSummary& how) {
  Summary made = summary(results.metrics);
  const auto classes = static_cast<int>(set.classes.size());
  const AveragePrecision precision = average_precision(results.pictures, classes);
  for (std::size_t i = 0; i < precision.coco.size(); ++i)
    made.metrics[kCocoNumbers[i]] = precision.coco[i];
  made.metrics["voc2007"] = precision.voc2007;
  made.metrics["voc2010"] = precision.voc2010;
  made.texts["classes"] = precision_table(precision, set.classes);
  made.images["precision_recall"] = precision_recall_picture(precision, set.classes);
  made.images["confusion"] = detection_confusion_picture(
      detection_confusion(results.pictures, classes, how.least_score, kConfusionOverlap),
      set.classes,
      "scores of " + two_digits(how.least_score) + " and more, overlaps of " +
          two_digits(kConfusionOverlap) + " and more");
  if (Image shown = beside_truth(results, set, how); !shown.pixels.empty())
    made.images["detections"] = std::move(shown);
  return made;
}

}  // namespace lockstep::vision
