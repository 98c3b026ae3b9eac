#pragma once

// The model of a recipe of the family `detect`.

#include <lockstep/nn/ssd.h>
#include <lockstep/vision/augment.h>
#include <lockstep/vision/box_augment.h>

#include "families/detect/recipe.h"

namespace lockstep::apps {

nn::SsdOptions ssd_options(const DetectRecipe& recipe, std::size_t classes);
nn::SsdLossOptions ssd_loss_options(const BoxLossRecipe& recipe);
vision::DetectionOptions detection_options(const FindRecipe& recipe);
vision::Normalisation normalisation(PixelScale pixels);
vision::BoxAugment box_augment(const AugmentRecipe& recipe);

}  // namespace lockstep::apps
