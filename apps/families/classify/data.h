#pragma once

// The images of a recipe of the family `classify`.

#include <lockstep/stream.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "families/classify/meaning.h"
#include "recipe/recipe.h"

namespace lockstep::apps {

using ImageBatch = torch::data::Example<>;
using ImageBatches = std::unique_ptr<Stream<ImageBatch>>;

struct ClassifyData {
  ImageMeaning meaning;
  int size = 224;                  ///< height and width
  std::int64_t train_batches = 0;  ///< an epoch
  std::int64_t fewest_rows = 0;    ///< of the smallest of them
  std::int64_t test_batches = 0;
  std::function<ImageBatches()> train;  ///< endless, shuffled
  std::function<ImageBatches()> test;   ///< once through
};

enum class DataUse { train, resume, evaluate };

/// Says on the error stream what there is and what is ignored when a training begins. To evaluate,
/// images to train on are not looked for, and need not be there.
ClassifyData classify_data(const Recipe& recipe, DataUse use = DataUse::train);

/// Height and width of the images that the model sees.
int image_side(const Recipe& recipe);

}  // namespace lockstep::apps
