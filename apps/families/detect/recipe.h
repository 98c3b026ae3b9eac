#pragma once

// The sections of a recipe that belong to the family `detect`.

#include <string>

#include "recipe/recipe.h"

namespace lockstep::apps {

struct AugmentRecipe {
  bool flip = true;
  bool crop = true;
  double expand = 1;
  double jitter = 0;
};

enum class BackboneName { mobilenet_v1, mobilenet_v2 };
enum class PixelScale { imagenet, half };

struct DetectorRecipe {
  BackboneName backbone = BackboneName::mobilenet_v2;
  double width = 1;
  bool lite = false;
  int size = 300;  ///< side of the pictures, in pixels
  PixelScale pixels = PixelScale::imagenet;
  double norm_momentum = 0.03;
  double norm_epsilon = 1e-3;
};

enum class BoxLossName { mined, focal };

struct BoxLossRecipe {
  BoxLossName name = BoxLossName::mined;
  double match_overlap = 0.5;
  double negatives = 3;  ///< for each positive
  int min_negatives = 3;
  double mining_overlap = 0.99;
  double alpha = 0.75;
  double gamma = 2;
  bool background_as_zeros = false;
  double class_bias = 0;
  double localization = 1;
  double classification = 1;
  bool per_coordinate = false;
};

struct FindRecipe {
  double score = 1e-8;
  double overlap = 0.6;
  int most_per_class = 100;
  int most = 100;
  double shown_score = 0.5;
};

struct DetectRecipe {
  // Of the section data:
  std::string test_path;
  std::string pictures, test_pictures;    ///< of `coco`
  std::string list = {}, test_list = {};  ///< of `voc`
  double held_out = 0.1;
  bool refuse_bad = false;
  Rest rest = Rest::merge;

  AugmentRecipe augment;
  DetectorRecipe detector;
  BoxLossRecipe loss;
  FindRecipe find;
};

}  // namespace lockstep::apps
