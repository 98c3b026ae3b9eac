#include "families/detect/detector.h"

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include "families/detect/model.h"
#include "families/detect/recipe.h"
#include "load_model.h"
#include "recipe/family.h"
#include "run_folder.h"

namespace lockstep::apps {

Detector::Detector(const DetectorFlags& flags) : scale_({}, 3) {
  const FoundCheckpoint found =
      find_checkpoint(flags.path, flags.newest ? Which::newest : Which::best);
  const Checkpoint& checkpoint = found.checkpoint;
  const auto classes = checkpoint.files.find(kClassesFile);
  if (classes == checkpoint.files.end())
    throw ConfigError("'" + found.path + "' finds nothing in pictures: it has no " + kClassesFile +
                      ". `lockstep train detect` makes such runs.");
  classes_ = parse_classes(classes->second, found.path + "/" + kClassesFile);
  const Recipe recipe = kept_recipe(checkpoint.manifest.recipe, found.path + "'s recipe");
  const auto& its = own<DetectRecipe>(recipe);
  model_ = std::make_shared<nn::Ssd>(ssd_options(its, classes_.names.size()));
  const bool averaged = takes_averages(flags.weights, found);
  load_weights(*model_, checkpoint.state, averaged);
  model_->eval();
  scale_ = vision::ByteScale(normalisation(its.detector.pixels), 3);
  find_ = detection_options(its.find);
  find_.least_score = flags.score;
  if (flags.overlap) find_.most_overlap = *flags.overlap;
  if (flags.most) find_.most = *flags.most;
  about_ = found.path + (averaged ? ", averaged weights" : "");
}

torch::Tensor Detector::seen(const Image& picture) const {
  const std::int64_t size = model_->options.size;
  torch::Tensor input = torch::empty({3, size, size});
  const vision::ImageSize stored{picture.width, picture.height};
  vision::write_view(picture, stored, vision::whole_view(stored), static_cast<int>(size), scale_,
                     input.data_ptr<float>());
  return input;
}

std::vector<std::vector<vision::Detection>> Detector::find(
    const std::vector<torch::Tensor>& inputs, const std::vector<vision::ImageSize>& sizes) {
  const torch::NoGradGuard no_gradients;
  return nn::detect(model_->forward(torch::stack(inputs)), model_->anchors, sizes, find_);
}

}  // namespace lockstep::apps
