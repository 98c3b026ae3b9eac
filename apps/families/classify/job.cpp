// What the family `classify` makes of a recipe.

#include <lockstep/nn/convnet.h>
#include <lockstep/nn/resnet.h>
#include <lockstep/nn/stages.h>
#include <lockstep/vision/classify.h>

#include "families/classify/data.h"
#include "families/classify/family.h"
#include "families/classify/recipe.h"
#include "family_program.h"
#include "on_strategy.h"
#include "recipe/family.h"
#include "training_batches.h"

namespace lockstep::apps {
namespace {

template <class S, class Model>
AnyLoss<S, ImageBatch> loss_for() {
  if constexpr (kInStages<S>)
    return nn::classifier_stages<Model, ImageBatch>(
        [](const ImageBatch& shard) { return shard.data; },
        [](const torch::Tensor& logits, const ImageBatch& shard) {
          return vision::cross_entropy(logits, shard.target);
        });
  else
    return [](Model& model, const ImageBatch& shard) {
      return vision::cross_entropy(model.forward(shard.data), shard.target);
    };
}

/// Throws ConfigError for a pipeline with more stages than the model can be cut into.
template <class S>
void require_layers(const Recipe& recipe, S& strategy) {
  if (recipe.strategy != StrategyName::pipeline) return;
  const int stages = recipe.pipeline.stages;
  const int layers = static_cast<int>(strategy.model().chain_length());
  if (stages > layers)
    throw ConfigError("pipeline.stages is " + std::to_string(stages) +
                      ", and this model.name has " + std::to_string(layers) +
                      " parts to put on devices: set pipeline.stages to 2 to " +
                      std::to_string(layers) + ", or take a model with more blocks.");
}

template <class Model, class ModelOptions>
std::unique_ptr<Job> job_of(const Recipe& recipe, MirroredOptions options, const ClassifyData& data,
                            const ModelOptions& shape) {
  require_rows(recipe, data.fewest_rows, [&] {
    const torch::NoGradGuard no_gradients;
    Model(shape).forward(torch::zeros({1, data.channels, data.size, data.size}));
  });
  const auto use = [&]<class S>(std::unique_ptr<S> strategy) {
    require_layers(recipe, *strategy);
    auto job = std::make_unique<StrategyJob<S, ImageBatch>>(
        std::move(strategy), data.train(), loss_for<S, Model>(), data.train_batches);
    job->add_set(
        "test", data.test_batches, data.test,
        [](Model& model, const ImageBatch& batch) {
          return vision::classify(model.forward(batch.data), batch.target);
        },
        [classes = data.classes](const vision::Classification& result) {
          Summary made = summary(result.metrics);
          if (result.confusion.defined())
            made.images["confusion"] = vision::confusion_picture(result, classes);
          return made;
        });
    return job;
  };
  return on_strategy<Model>(recipe, std::move(options), use, shape);
}

std::unique_ptr<Job> classify_job(const Recipe& recipe, MirroredOptions options, const JobFiles&) {
  const ModelRecipe& model = own<ClassifyRecipe>(recipe).model;
  const ClassifyData data = classify_data(recipe);
  const auto classes = static_cast<std::int64_t>(data.classes.size());
  const auto resnet = [&](nn::ResNetOptions shape) {
    shape.channels = data.channels;
    return job_of<nn::ResNet>(recipe, std::move(options), data, shape);
  };
  switch (model.name) {
    case ModelName::convnet:
      return job_of<nn::ConvNet>(recipe, std::move(options), data,
                                 nn::ConvNetOptions{.width = model.width,
                                                    .dropout = model.dropout,
                                                    .image_size = data.size,
                                                    .channels = data.channels,
                                                    .classes = classes});
    case ModelName::resnet20:
      return resnet(nn::resnet20(classes));
    case ModelName::resnet18:
      return resnet(nn::resnet18(classes));
    case ModelName::resnet50:
      return resnet(nn::resnet50(classes));
  }
  throw ConfigError("a model without a name");
}

}  // namespace

FamilyProgram ClassifyFamily::program() { return {.make_job = classify_job}; }

}  // namespace lockstep::apps
