#pragma once

// The evaluation of a detector, as Mirrored::evaluate merges it and as people look at it.

#include <lockstep/job.h>
#include <lockstep/metrics.h>
#include <lockstep/vision/average_precision.h>
#include <lockstep/vision/box_set.h>
#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace lockstep::vision {

/// What a detector found in some pictures. Parts merged with += equal the whole.
struct DetectionResults {
  Metrics metrics = {};  ///< "loss"
  std::vector<JudgedPicture> pictures = {};

  DetectionResults& operator+=(const DetectionResults& other);
  auto fields() { return std::tie(metrics, pictures); }  ///< see lockstep/travel.h
};

/// Puts detections beside what the set says. `pictures` are the numbers of the rows' pictures in
/// it, int64 on the CPU; rows with -1 are left out.
std::vector<JudgedPicture> judged(const BoxSet& set, const torch::Tensor& pictures,
                                  const std::vector<std::vector<Detection>>& found);

struct DetectionSummary {
  double least_score = 0.5;  ///< of detections in pictures and in the confusion matrix
  int pictures = 6;          ///< that are shown, truth beside detections
};

/// COCO's numbers by their names ("AP", "AP50", ...), "voc2007", "voc2010" and "loss"; the table of
/// classes as a text; pictures: detections beside the truth, precision over recall, confusion. A
/// picture that cannot be read is not shown.
Summary summarise(const DetectionResults& results, const BoxSet& set,
                  const DetectionSummary& how = {});

}  // namespace lockstep::vision
