#include "classify_data.h"

#include <lockstep/error.h>
#include <lockstep/input.h>
#include <lockstep/vision/cifar.h>
#include <lockstep/vision/idx.h>
#include <lockstep/vision/image_folder.h>

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
  const auto seed = static_cast<std::uint64_t>(recipe.seed);
  const input::Prefetch ahead{.depth = recipe.data.prefetch, .workers = recipe.data.workers};
  const auto batches = input::batch(input::shuffle(std::move(train), seed), recipe.data.batch);
  const auto test_batches = input::batch(std::move(test), recipe.data.test_batch);
  input::Prefetch once = ahead;
  once.epochs = 1;
  return {.classes = std::move(classes),
          .channels = channels,
          .size = size,
          .train_batches = batches.size(),
          .test_batches = test_batches.size(),
          .train = [=] { return input::prefetch(batches, ahead); },
          .test = [=] { return input::prefetch(test_batches, once); }};
}

}  // namespace

ClassifyData classify_data(const Recipe& recipe) {
  const DataRecipe& how = recipe.data;
  const auto seed = static_cast<std::uint64_t>(recipe.seed);
  switch (how.kind) {
    case DataKind::fashion_mnist: {
      const std::string folder = how.path.empty() ? vision::kFashionMnistFolder : how.path;
      vision::ImageSetOptions options{.normalisation = vision::fashion_mnist_normalisation()};
      vision::ImageSet test = vision::fashion_mnist_set(vision::Subset::test, folder, options);
      options.augment = how.augment;
      options.seed = seed;
      return data_of(recipe, vision::fashion_mnist_set(vision::Subset::train, folder, options),
                     std::move(test), 1, 28);
    }
    case DataKind::cifar10: {
      vision::ImageSetOptions options{.normalisation = vision::cifar10_normalisation()};
      vision::ImageSet test = vision::cifar10(vision::Subset::test, how.path, options);
      options.augment = how.augment;
      options.seed = seed;
      return data_of(recipe, vision::cifar10(vision::Subset::train, how.path, options),
                     std::move(test), 3, 32);
    }
    case DataKind::folder: {
      vision::ImageFolderOptions options{.size = how.size};
      vision::ImageFolder test(how.test_path, options);
      options.augment = how.augment;
      options.seed = seed;
      return data_of(recipe, vision::ImageFolder(how.path, options), std::move(test), 3, how.size);
    }
    default:
      throw ConfigError("data.kind has no images");
  }
}

}  // namespace lockstep::apps
