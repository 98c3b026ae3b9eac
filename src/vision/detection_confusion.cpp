#include <lockstep/error.h>
#include <lockstep/vision/average_precision.h>

#include <algorithm>
#include <functional>
#include <tuple>

namespace lockstep::vision {
namespace {

struct OverlapPair {
  double overlap, score;
  const LabelledBox* thing;
  const Detection* detection;
};

bool is_counted(const LabelledBox& thing) { return !thing.crowd && !thing.difficult; }

/// Best overlaps first, then best scores, then in the order of the picture.
std::vector<OverlapPair> overlap_pairs(const JudgedPicture& picture, double least_score,
                                       double least_overlap) {
  std::vector<OverlapPair> result;
  for (const Detection& detection : picture.found) {
    if (!(detection.score >= least_score)) continue;
    for (const LabelledBox& thing : picture.truth) {
      const double value = is_counted(thing) ? overlap(detection.box, thing.box) : 0;
      if (value > 0 && value >= least_overlap)
        result.push_back({value, detection.score, &thing, &detection});
    }
  }
  std::ranges::stable_sort(result, std::greater{}, [](const OverlapPair& pair) {
    return std::tuple(pair.overlap, pair.score);
  });
  return result;
}

/// Whether it lies on something that does not count: on a crowd by its own area, as COCO has it.
bool is_on_left_out(const Detection& detection, const std::vector<LabelledBox>& truth,
                    double least_overlap) {
  return std::ranges::any_of(truth, [&](const LabelledBox& thing) {
    if (is_counted(thing)) return false;
    const double shared = shared_area(detection.box, thing.box);
    const double value =
        thing.crowd ? shared / detection.box.area() : overlap(detection.box, thing.box);
    return shared > 0 && value >= least_overlap;
  });
}

class ConfusionCounts {
 public:
  explicit ConfusionCounts(int classes)
      : background_(static_cast<std::size_t>(classes)),
        counts_(background_ + 1, std::vector<std::int64_t>(background_ + 1)) {}

  void paired(int truth, int found) { ++counts_[class_of(truth)][class_of(found)]; }
  void missed(int truth) { ++counts_[class_of(truth)][background_]; }
  void invented(int found) { ++counts_[background_][class_of(found)]; }

  std::vector<std::vector<std::int64_t>> take() && { return std::move(counts_); }

 private:
  std::size_t class_of(int label) const {
    check(label >= 0 && static_cast<std::size_t>(label) < background_,
          "detection_confusion: a label is not the number of a class");
    return static_cast<std::size_t>(label);
  }

  std::size_t background_;
  std::vector<std::vector<std::int64_t>> counts_;
};

void count_picture(const JudgedPicture& picture, double least_score, double least_overlap,
                   ConfusionCounts& result) {
  std::vector<bool> is_found(picture.truth.size()), is_used(picture.found.size());
  for (const OverlapPair& pair : overlap_pairs(picture, least_score, least_overlap)) {
    const auto thing = static_cast<std::size_t>(pair.thing - picture.truth.data());
    const auto detection = static_cast<std::size_t>(pair.detection - picture.found.data());
    if (is_found[thing] || is_used[detection]) continue;
    is_found[thing] = is_used[detection] = true;
    result.paired(pair.thing->label, pair.detection->label);
  }
  for (std::size_t i = 0; i < picture.truth.size(); ++i)
    if (!is_found[i] && is_counted(picture.truth[i])) result.missed(picture.truth[i].label);
  for (std::size_t i = 0; i < picture.found.size(); ++i) {
    const Detection& detection = picture.found[i];
    if (!is_used[i] && detection.score >= least_score &&
        !is_on_left_out(detection, picture.truth, least_overlap))
      result.invented(detection.label);
  }
}

}  // namespace

std::vector<std::vector<std::int64_t>> detection_confusion(
    const std::vector<JudgedPicture>& pictures, int classes, double least_score,
    double least_overlap) {
  check(classes >= 0, "detection_confusion: the number of classes is below 0");
  ConfusionCounts result(classes);
  for (const JudgedPicture& picture : pictures)
    count_picture(picture, least_score, least_overlap, result);
  return std::move(result).take();
}

}  // namespace lockstep::vision
