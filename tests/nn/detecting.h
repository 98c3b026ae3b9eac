#pragma once

// Small detectors on made-up pictures.

#include <lockstep/nn/ssd.h>

#include <random>

#include "training.h"

namespace detecting {

using namespace training;

constexpr std::int64_t kSize = 96;

/// MobileNet v2 at a quarter of its width.
inline SsdOptions small_ssd(Backbone backbone = Backbone::mobilenet_v2, bool lite = false) {
  return {.backbone = backbone, .width = 0.25, .lite = lite, .size = kSize, .classes = 3};
}

/// What a step is given.
struct Pictures {
  torch::Tensor images = {}, labels = {}, codes = {};

  auto tensors() { return std::tie(images, labels, codes); }
};

/// The targets of all rows, as tensors.
inline void set_targets(Pictures& pictures, const std::vector<vision::Targets>& all) {
  std::vector<torch::Tensor> labels, codes;
  for (const vision::Targets& targets : all) {
    labels.push_back(torch::tensor(targets.labels, torch::kInt64));
    codes.push_back(torch::empty({static_cast<std::int64_t>(targets.codes.size()), 4}));
    auto* to = codes.back().mutable_data_ptr<float>();
    for (const vision::BoxCode& code : targets.codes) to = std::copy(code.begin(), code.end(), to);
  }
  pictures.labels = torch::stack(labels);
  pictures.codes = torch::stack(codes);
}

/// Targets of a picture with `things` things in random places.
inline vision::Targets random_targets(const std::vector<vision::Corners>& anchors,
                                      std::mt19937& random, int things) {
  std::uniform_real_distribution<float> place(0, 0.6F), side(0.1F, 0.4F);
  std::vector<vision::Corners> boxes;
  std::vector<int> labels;
  for (int i = 0; i < things; ++i) {
    const float top = place(random), left = place(random);
    boxes.push_back({top, left, top + side(random), left + side(random)});
    labels.push_back(static_cast<int>(random() % 3));
  }
  return vision::make_targets(anchors, boxes, labels);
}

/// A picture for each number of things. The pixels are noise.
inline Pictures random_pictures(const std::vector<vision::Corners>& anchors, unsigned seed,
                                const std::vector<int>& things, std::int64_t size = kSize) {
  std::mt19937 random(seed);
  std::vector<vision::Targets> targets;
  for (const int count : things) targets.push_back(random_targets(anchors, random, count));
  Pictures pictures{
      .images =
          images(static_cast<int>(seed), static_cast<std::int64_t>(things.size()), 3, size).data};
  set_targets(pictures, targets);
  return pictures;
}

/// The loss function of a step.
struct Detecting {
  SsdLossOptions options = {};
  Loss operator()(Ssd& model, const Pictures& shard) const {
    return ssd_loss(model.forward(shard.images), model.anchors, shard.labels, shard.codes, options);
  }
};

}  // namespace detecting
