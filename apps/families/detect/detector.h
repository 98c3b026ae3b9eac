#pragma once

// A trained detector, to find things with: what `detect` does.

#include <lockstep/image.h>
#include <lockstep/nn/ssd.h>
#include <lockstep/vision/augment.h>
#include <lockstep/vision/box.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "families/detect/data.h"

namespace lockstep::apps {

struct DetectorFlags {
  std::string path;
  std::string weights = "auto";
  bool newest = false;
  double score = 0.3;
  std::optional<double> overlap;  ///< nothing: as the recipe says
  std::optional<int> most;        ///< nothing: as the recipe says
};

class Detector {
 public:
  /// The best checkpoint of a run (or the one at `path`) with averaged weights, if it has some.
  /// Throws ConfigError when it was not trained by the family detect.
  explicit Detector(const DetectorFlags& flags);

  /// What the model sees of a picture: float32 [3, size, size].
  torch::Tensor seen(const Image& picture) const;

  /// `inputs` are what it sees of pictures of these sizes.
  std::vector<std::vector<vision::Detection>> find(const std::vector<torch::Tensor>& inputs,
                                                   const std::vector<vision::ImageSize>& sizes);

  const DetectClasses& classes() const { return classes_; }
  const std::string& about() const { return about_; }  ///< "runs/detect/..., averaged weights"

 private:
  DetectClasses classes_;
  std::shared_ptr<nn::Ssd> model_;
  vision::ByteScale scale_;
  vision::DetectionOptions find_;
  std::string about_;
};

}  // namespace lockstep::apps
