// What the family `classify` makes of a recipe.

#include <lockstep/nn/stages.h>
#include <lockstep/vision/classify.h>

#include "families/classify/data.h"
#include "families/classify/family.h"
#include "families/classify/family_commands.h"
#include "families/classify/model.h"
#include "families/classify/per_class.h"
#include "families/classify/recipe.h"
#include "families/classify/service.h"
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
                            const ModelOptions& shape, DataUse data_use) {
  if (data_use != DataUse::evaluate)
    require_rows(recipe, data.fewest_rows, [&] {
      const torch::NoGradGuard no_gradients;
      Model(shape).forward(torch::zeros({1, data.meaning.channels, data.size, data.size}));
    });
  const auto use = [&]<class S>(std::unique_ptr<S> strategy) {
    require_layers(recipe, *strategy);
    auto job = std::make_unique<StrategyJob<S, ImageBatch>>(
        std::move(strategy), data.train(), loss_for<S, Model>(), data.train_batches);
    job->add_file(kImagesFile, text_of(data.meaning));
    job->add_set(
        "test", data.test_batches, data.test,
        [](Model& model, const ImageBatch& batch) {
          return vision::classify(model.forward(batch.data), batch.target);
        },
        [details = data_use == DataUse::evaluate,
         classes = data.meaning.classes](const vision::Classification& result) {
          Summary made = summary(result.metrics);
          if (!result.confusion.defined()) return made;
          made.images["confusion"] = vision::confusion_picture(result, classes);
          if (details) made.texts["classes"] = per_class(result, classes);
          return made;
        });
    return job;
  };
  return on_strategy<Model>(recipe, std::move(options), use, shape);
}

std::unique_ptr<Job> classify_job(const Recipe& recipe, MirroredOptions options,
                                  const JobFiles& files) {
  const DataUse use = files.evaluation                   ? DataUse::evaluate
                      : files.kept.contains(kImagesFile) ? DataUse::resume
                                                         : DataUse::train;
  const ClassifyData data = classify_data(recipe, use);
  compare_meaning(data.meaning, files.kept);
  const ImageShape shape{.channels = data.meaning.channels,
                         .size = data.size,
                         .classes = std::ssize(data.meaning.classes)};
  return with_model(own<ClassifyRecipe>(recipe).model, shape,
                    [&]<class Model>(std::type_identity<Model>, const auto& model_options) {
                      return job_of<Model>(recipe, options, data, model_options, use);
                    });
}

}  // namespace

FamilyProgram ClassifyFamily::program() {
  return {.make_job = classify_job, .add_commands = add_predict, .make_service = predict_service};
}

}  // namespace lockstep::apps
