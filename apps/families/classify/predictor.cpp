#include "families/classify/predictor.h"

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/vision/image_folder.h>

#include <algorithm>

#include "families/classify/data.h"
#include "families/classify/model.h"
#include "families/classify/recipe.h"
#include "load_model.h"
#include "recipe/family.h"
#include "run_folder.h"

namespace lockstep::apps {
namespace {

/// Of three channels: what one channel has, three times.
vision::Normalisation of_colours(const ImageMeaning& meaning) {
  vision::Normalisation normalisation = meaning.normalisation;
  if (meaning.channels == 1 && !normalisation.mean.empty()) {
    normalisation.mean.assign(3, normalisation.mean.front());
    normalisation.deviation.assign(3, normalisation.deviation.front());
  }
  return normalisation;
}

}  // namespace

Predictor::Predictor(const PredictorFlags& flags) {
  const FoundCheckpoint found =
      find_checkpoint(flags.path, flags.newest ? Which::newest : Which::best);
  const Checkpoint& checkpoint = found.checkpoint;
  const auto file = checkpoint.files.find(kImagesFile);
  if (file == checkpoint.files.end())
    throw ConfigError("'" + found.path + "' puts no images into classes: it has no " + kImagesFile +
                      ". `lockstep train imagefolder` makes such runs; `lockstep detect`, `chat` "
                      "and `translate` use those of the other families.");
  meaning_ = parse_meaning(file->second, found.path + "/" + kImagesFile);
  const Recipe recipe = kept_recipe(checkpoint.manifest.recipe, found.path + "'s recipe");
  size_ = image_side(recipe);
  if (recipe.data.kind == "folder") centre_ = vision::ImageFolderOptions{}.centre;
  const ImageShape shape{
      .channels = meaning_.channels, .size = size_, .classes = std::ssize(meaning_.classes)};
  with_model(own<ClassifyRecipe>(recipe).model, shape,
             [&]<class Model>(std::type_identity<Model>, const auto& options) {
               const auto model = std::make_shared<Model>(options);
               module_ = model;
               forward_ = [model](const torch::Tensor& images) { return model->forward(images); };
             });
  const bool averaged = takes_averages(flags.weights, found);
  load_weights(*module_, checkpoint.state, averaged);
  module_->eval();
  about_ = found.path + (averaged ? ", averaged weights" : "");
}

torch::Tensor Predictor::seen(const std::string& path, std::span<const std::uint8_t> bytes) const {
  const torch::Tensor colours = vision::seen_middle(
      path, bytes, {.size = size_, .centre = centre_, .normalisation = of_colours(meaning_)});
  if (meaning_.channels == 3) return colours;
  const torch::Tensor luma = torch::tensor({0.299F, 0.587F, 0.114F}).view({3, 1, 1});
  return (colours * luma).sum(0, /*keepdim=*/true);
}

std::vector<std::vector<Prediction>> Predictor::predict(const std::vector<torch::Tensor>& inputs,
                                                        int top) {
  const torch::NoGradGuard no_gradients;
  const torch::Tensor scores = forward_(torch::stack(inputs)).softmax(1);
  const auto [values, labels] =
      scores.topk(std::min<std::int64_t>(top, std::ssize(meaning_.classes)), 1);
  std::vector<std::vector<Prediction>> all(inputs.size());
  for (std::int64_t row = 0; row < scores.size(0); ++row)
    for (std::int64_t i = 0; i < values.size(1); ++i)
      all[static_cast<std::size_t>(row)].push_back(
          {meaning_.classes.at(static_cast<std::size_t>(labels[row][i].item<std::int64_t>())),
           values[row][i].item<double>()});
  return all;
}

}  // namespace lockstep::apps
