// What the family `detect` makes of a recipe.

#include <lockstep/input.h>
#include <lockstep/nn/stages.h>
#include <lockstep/vision/box_pictures.h>
#include <lockstep/vision/boxed_pictures.h>
#include <lockstep/vision/detection_results.h>

#include <algorithm>
#include <numeric>

#include "families/detect/data.h"
#include "families/detect/family.h"
#include "families/detect/family_commands.h"
#include "families/detect/model.h"
#include "families/detect/service.h"
#include "family_program.h"
#include "on_strategy.h"
#include "recipe/family.h"
#include "training_batches.h"

namespace lockstep::apps {
namespace {

using vision::BoxedPictures;
using vision::DetectionBatch;

/// What a model finds in a batch, and its loss.
struct DetectionMetric {
  std::shared_ptr<const vision::BoxSet> set;
  nn::SsdLossOptions loss;
  vision::DetectionOptions find;

  vision::DetectionResults operator()(nn::Ssd& model, const DetectionBatch& batch) const {
    const nn::Ssd::Output output = model.forward(batch.images);
    const Loss part = nn::ssd_loss(output, model.anchors, batch.labels, batch.codes, loss);
    const torch::Tensor numbers = batch.pictures.cpu();
    std::vector<vision::ImageSize> sizes;
    for (const std::int64_t number :
         std::span(numbers.data_ptr<std::int64_t>(), static_cast<std::size_t>(numbers.numel())))
      sizes.push_back(number < 0 ? vision::ImageSize{1, 1}
                                 : set->pictures[static_cast<std::size_t>(number)].size);
    return {
        .metrics = {{"loss", {part.sum.item<double>(), part.weight}}},
        .pictures = vision::judged(*set, numbers, nn::detect(output, model.anchors, sizes, find))};
  }
};

/// The first training pictures as the model gets them.
Image training_pictures(const BoxedPictures& pictures, const Recipe& recipe,
                        const vision::BoxedPicturesOptions& how) {
  constexpr std::int64_t kShown = 12;
  const auto shuffled = input::shuffle(pictures, static_cast<std::uint64_t>(recipe.seed));
  std::vector<std::int64_t> first(static_cast<std::size_t>(std::min(kShown, pictures.size())));
  std::iota(first.begin(), first.end(), std::int64_t{0});
  return vision::mosaic(vision::shown(shuffled.gather(0, first), how, pictures.set().classes), 4);
}

/// For optimizer.decay_biases_and_norms = false: no decay for what published recipes do not decay.
std::vector<ParameterRule> undecayed_parts(const nn::Ssd& model) {
  std::vector<ParameterRule> rules;
  for (const std::string& pattern : nn::undecayed(model))
    rules.push_back({.pattern = pattern, .weight_decay = 0});
  return rules;
}

template <class S>
AnyLoss<S, DetectionBatch> loss_for(const nn::SsdLossOptions& loss) {
  if constexpr (kInStages<S>)
    return nn::ssd_stages(loss);
  else
    return [loss](nn::Ssd& model, const DetectionBatch& shard) {
      return nn::ssd_loss(model.forward(shard.images), model.anchors, shard.labels, shard.codes,
                          loss);
    };
}

std::unique_ptr<Job> detect_job(const Recipe& recipe, MirroredOptions options,
                                const JobFiles& files) {
  const auto& its = own<DetectRecipe>(recipe);
  const DetectData data = detect_data(recipe, files);
  const std::size_t classes = data.classes.names.size();
  const nn::SsdOptions shape = ssd_options(its, classes);
  const nn::SsdLossOptions loss = ssd_loss_options(its.loss);
  const vision::BoxedPicturesOptions how = picture_options(recipe, classes, true);
  const BoxedPictures pictures(data.train, how);
  const input::Prefetch ahead{.depth = recipe.data.prefetch, .workers = recipe.data.workers};
  input::Prefetch once = ahead;
  once.epochs = 1;
  if (!recipe.optimizer.decay_biases_and_norms)
    options.method.rules = undecayed_parts(nn::Ssd(shape));

  const auto batches = training_batches(recipe, its.rest, pictures);
  require_rows(recipe, fewest_rows(batches), [&] {
    const torch::NoGradGuard no_gradients;
    nn::Ssd(shape).forward(torch::zeros({1, 3, shape.size, shape.size}));
  });
  const auto use = [&]<class S>(std::unique_ptr<S> strategy) {
    auto job = std::make_unique<StrategyJob<S, DetectionBatch>>(
        std::move(strategy), input::prefetch(batches, ahead), loss_for<S>(loss), batches.size());
    job->add_file(kClassesFile, text_of(data.classes));
    job->add_image("pictures", [=] { return training_pictures(pictures, recipe, how); });
    for (const DetectData::Test& test : data.tests) {
      const auto test_batches = input::batch(
          BoxedPictures(test.set, picture_options(recipe, classes, false)), recipe.data.test_batch);
      job->add_set(
          test.name, test_batches.size(), [=] { return input::prefetch(test_batches, once); },
          DetectionMetric{test.set, loss, detection_options(its.find)},
          [set = test.set, shown = its.find.shown_score](const vision::DetectionResults& results) {
            return vision::summarise(results, *set, {.least_score = shown});
          });
    }
    return job;
  };
  return on_strategy<nn::Ssd>(recipe, std::move(options), use, shape);
}

}  // namespace

FamilyProgram DetectFamily::program() {
  return {.make_job = detect_job,
          .add_commands =
              [](CLI::App& app, Run& run) {
                add_detect(app, run);
                add_scenes(app, run);
              },
          .weight_prefixes = {nn::kBackbone},
          .make_service = detect_service};
}

}  // namespace lockstep::apps
