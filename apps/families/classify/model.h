#pragma once

// The models of the family `classify`.

#include <lockstep/error.h>
#include <lockstep/nn/convnet.h>
#include <lockstep/nn/resnet.h>

#include <type_traits>

#include "families/classify/recipe.h"

namespace lockstep::apps {

/// What goes into a model and comes out.
struct ImageShape {
  std::int64_t channels = 3;
  std::int64_t size = 224;  ///< height and width
  std::int64_t classes = 0;
};

/// Calls use(std::type_identity<Model>{}, options) for the model that the recipe names, such that
/// Model(options) is it.
template <class Use>
auto with_model(const ModelRecipe& model, const ImageShape& shape, const Use& use) {
  const auto resnet = [&](nn::ResNetOptions options) {
    options.channels = shape.channels;
    return use(std::type_identity<nn::ResNet>{}, options);
  };
  switch (model.name) {
    case ModelName::convnet:
      return use(std::type_identity<nn::ConvNet>{}, nn::ConvNetOptions{.width = model.width,
                                                                       .dropout = model.dropout,
                                                                       .image_size = shape.size,
                                                                       .channels = shape.channels,
                                                                       .classes = shape.classes});
    case ModelName::resnet20:
      return resnet(nn::resnet20(shape.classes));
    case ModelName::resnet18:
      return resnet(nn::resnet18(shape.classes));
    case ModelName::resnet50:
      return resnet(nn::resnet50(shape.classes));
  }
  throw ConfigError("a model without a name");
}

}  // namespace lockstep::apps
