#include "families/classify/data.h"

#include <lockstep/error.h>
#include <lockstep/input.h>
#include <lockstep/vision/cifar.h>
#include <lockstep/vision/idx.h>
#include <lockstep/vision/image_folder.h>

#include "families/classify/recipe.h"
#include "recipe/family.h"
#include "training_batches.h"

namespace lockstep::apps {
namespace {

/// Both parts of a set of images, as streams of batches made ahead.
template <class Images>
ClassifyData data_of(const Recipe& recipe, Images train, Images test, int channels, int size) {
  if (train.classes() != test.classes())
    throw ConfigError("the classes of data.test_path are not those of data.path: " +
                      std::to_string(test.classes().size()) + " and " +
                      std::to_string(train.classes().size()) + " folders.");
  auto classes = train.classes();
  const input::Prefetch ahead{.depth = recipe.data.prefetch, .workers = recipe.data.workers};
  const auto batches = training_batches(recipe, own<ClassifyRecipe>(recipe).rest, std::move(train));
  const auto test_batches = input::batch(std::move(test), recipe.data.test_batch);
  input::Prefetch once = ahead;
  once.epochs = 1;
  return {.classes = std::move(classes),
          .channels = channels,
          .size = size,
          .train_batches = batches.size(),
          .fewest_rows = fewest_rows(batches),
          .test_batches = test_batches.size(),
          .train = [=] { return input::prefetch(batches, ahead); },
          .test = [=] { return input::prefetch(test_batches, once); }};
}

}  // namespace

ClassifyData classify_data(const Recipe& recipe) {
  const auto& how = own<ClassifyRecipe>(recipe);
  const std::string& path = recipe.data.path;
  const auto seed = static_cast<std::uint64_t>(recipe.seed);
  if (recipe.data.kind == "folder") {
    vision::ImageFolderOptions options{.size = how.size};
    vision::ImageFolder test(how.test_path, options);
    options.augment = how.augment;
    options.seed = seed;
    return data_of(recipe, vision::ImageFolder(path, options), std::move(test), 3, how.size);
  }
  const bool grey = recipe.data.kind == "fashion_mnist";
  const auto set_of = [&](vision::Subset subset, const vision::ImageSetOptions& options) {
    return grey ? vision::fashion_mnist_set(
                      subset, path.empty() ? vision::kFashionMnistFolder : path, options)
                : vision::cifar10(subset, path, options);
  };
  vision::ImageSetOptions options{.normalisation = grey ? vision::fashion_mnist_normalisation()
                                                        : vision::cifar10_normalisation()};
  vision::ImageSet test = set_of(vision::Subset::test, options);
  options.augment = how.augment;
  options.seed = seed;
  return data_of(recipe, set_of(vision::Subset::train, options), std::move(test), grey ? 1 : 3,
                 grey ? 28 : 32);
}

}  // namespace lockstep::apps
