#include "families/detect/model.h"

#include <lockstep/vision/image_folder.h>

namespace lockstep::apps {

nn::SsdOptions ssd_options(const DetectRecipe& recipe, std::size_t classes) {
  const DetectorRecipe& its = recipe.detector;
  return {.backbone = its.backbone == BackboneName::mobilenet_v1 ? nn::Backbone::mobilenet_v1
                                                                 : nn::Backbone::mobilenet_v2,
          .width = its.width,
          .lite = its.lite,
          .size = its.size,
          .classes = static_cast<std::int64_t>(classes),
          .norm = {.epsilon = its.norm_epsilon, .momentum = its.norm_momentum},
          .class_bias = recipe.loss.class_bias};
}

nn::SsdLossOptions ssd_loss_options(const BoxLossRecipe& recipe) {
  return {
      .kind = recipe.name == BoxLossName::focal ? nn::SsdLossKind::focal : nn::SsdLossKind::mined,
      .mining = {.most_overlap = recipe.mining_overlap,
                 .negatives_per_positive = recipe.negatives,
                 .min_negatives = recipe.min_negatives},
      .alpha = recipe.alpha,
      .gamma = recipe.gamma,
      .background_as_zeros = recipe.background_as_zeros,
      .localization_weight = recipe.localization,
      .classification_weight = recipe.classification,
      .per_coordinate = recipe.per_coordinate};
}

vision::DetectionOptions detection_options(const FindRecipe& recipe) {
  return {.least_score = recipe.score,
          .most_overlap = recipe.overlap,
          .most_per_class = recipe.most_per_class,
          .most = recipe.most};
}

vision::Normalisation normalisation(PixelScale pixels) {
  if (pixels == PixelScale::imagenet) return vision::imagenet_normalisation();
  return {.mean = {0.5, 0.5, 0.5}, .deviation = {0.5, 0.5, 0.5}};
}

vision::BoxAugment box_augment(const AugmentRecipe& recipe) {
  return {
      .flip = recipe.flip, .crop = recipe.crop, .expand = recipe.expand, .jitter = recipe.jitter};
}

}  // namespace lockstep::apps
