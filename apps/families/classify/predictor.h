#pragma once

// A trained classifier, to put images into classes: what `predict` does.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "families/classify/meaning.h"

namespace lockstep::apps {

struct PredictorFlags {
  std::string path;
  std::string weights = "auto";
  bool newest = false;
};

/// A class with its probability.
struct Prediction {
  std::string name;
  double score = 0;
};

class Predictor {
 public:
  /// The best checkpoint of a run (or the one at `path`) with averaged weights, if it has some.
  /// Throws ConfigError when it was not trained by the family classify.
  explicit Predictor(const PredictorFlags& flags);

  /// What the model sees of an image file: the middle of it. Throws CorruptFile.
  torch::Tensor seen(const std::string& path, std::span<const std::uint8_t> bytes) const;

  /// For each of them the `top` classes, the best first.
  std::vector<std::vector<Prediction>> predict(const std::vector<torch::Tensor>& inputs, int top);

  const std::vector<std::string>& classes() const { return meaning_.classes; }
  const std::string& about() const { return about_; }  ///< "runs/fashion/..., averaged weights"

 private:
  ImageMeaning meaning_;
  int size_ = 0;
  double centre_ = 1;  ///< of the short side
  std::shared_ptr<torch::nn::Module> module_;
  std::function<torch::Tensor(const torch::Tensor&)> forward_;
  std::string about_;
};

}  // namespace lockstep::apps
