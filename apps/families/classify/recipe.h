#pragma once

// The sections of a recipe that belong to the family `classify`.

#include <string>

#include "recipe/recipe.h"

namespace lockstep::apps {

enum class ModelName { convnet, resnet20, resnet18, resnet50 };

struct ModelRecipe {
  ModelName name = ModelName::convnet;
  int width = 32;  ///< filters of convnet's first layer
  double dropout = 0;
};

struct ClassifyRecipe {
  // Of the section data:
  std::string test_path;  ///< of `folder`
  bool augment = true;
  int size = 224;       ///< side of the images of `folder`, in pixels
  double held_out = 0;  ///< of `folder`, without a test_path
  bool refuse_bad = false;
  Rest rest = Rest::merge;

  ModelRecipe model;
};

}  // namespace lockstep::apps
