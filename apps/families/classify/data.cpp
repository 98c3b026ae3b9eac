#include "families/classify/data.h"

#include <lockstep/error.h>
#include <lockstep/input.h>
#include <lockstep/vision/cifar.h>
#include <lockstep/vision/idx.h>
#include <lockstep/vision/image_folder.h>

#include <algorithm>
#include <fstream>

#include "families/classify/recipe.h"
#include "notes.h"
#include "recipe/family.h"
#include "training_batches.h"

namespace lockstep::apps {
namespace {

/// Both parts of a set of images, as streams of batches made ahead. `open_train` is not called to
/// evaluate: then what is evaluated stands in for it, and nobody trains on it.
template <class Images, class OpenTrain>
ClassifyData data_of(const Recipe& recipe, DataUse use, Images test, ImageMeaning meaning,
                     const OpenTrain& open_train) {
  Images train = use == DataUse::evaluate ? test : open_train();
  if (train.classes() != test.classes())
    throw ConfigError(
        "the classes of data.test_path are not those of data.path: " +
        class_differences(train.classes(), test.classes(), "data.path", "data.test_path") + ".");
  if (train.size() == 0 || test.size() == 0)
    throw ConfigError(std::string("there is no image to ") +
                      (train.size() == 0 ? "train" : "evaluate") +
                      " on: give more images, or change data.held_out.");
  meaning.classes = train.classes();
  const input::Prefetch ahead{.depth = recipe.data.prefetch, .workers = recipe.data.workers};
  const Rest rest = use == DataUse::evaluate ? Rest::keep : own<ClassifyRecipe>(recipe).rest;
  const auto batches = training_batches(recipe, rest, std::move(train));
  const auto test_batches = input::batch(std::move(test), recipe.data.test_batch);
  input::Prefetch once = ahead;
  once.epochs = 1;
  return {.meaning = std::move(meaning),
          .size = image_side(recipe),
          .train_batches = batches.size(),
          .fewest_rows = fewest_rows(batches),
          .test_batches = test_batches.size(),
          .train = [=] { return input::prefetch(batches, ahead); },
          .test = [=] { return input::prefetch(test_batches, once); }};
}

void tell_counts(std::int64_t train, std::int64_t test, std::size_t classes) {
  tell_note(std::to_string(train) + " images to train on, " + std::to_string(test) +
            " to evaluate on, " + std::to_string(classes) + " classes");
}

/// "a 12, b 20", the first ones.
std::string counts_text(const vision::ImageFolder& images) {
  constexpr std::size_t kShown = 20;
  const auto counts = images.counts();
  std::string text;
  for (std::size_t i = 0; i < std::min(counts.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + images.classes()[i] + " " + std::to_string(counts[i]);
  return text +
         (counts.size() > kShown ? " and " + std::to_string(counts.size() - kShown) + " more" : "");
}

/// "from 40 x 30 to 640 x 480 pixels", of some images all over the set; nothing if none can be
/// read.
std::string sizes_text(const vision::ImageFolder& images) {
  constexpr std::int64_t kLookedAt = 100;
  constexpr std::size_t kHeader = std::size_t{64} << 10U;
  std::vector<vision::ImageSize> sizes;
  const std::int64_t every = std::max<std::int64_t>(1, images.size() / kLookedAt);
  for (std::int64_t i = 0; i < images.size(); i += every) try {
      std::vector<std::uint8_t> bytes(kHeader);
      std::ifstream file(images.file(i), std::ios::binary);
      file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(kHeader));
      bytes.resize(static_cast<std::size_t>(file.gcount()));
      sizes.push_back(vision::image_size(images.file(i), bytes));
    } catch (const CorruptFile&) {  // it is told when it is read
    }
  if (sizes.empty()) return "";
  const auto pixels = [](const vision::ImageSize& size) {
    return static_cast<std::int64_t>(size.width) * size.height;
  };
  const auto text = [](const vision::ImageSize& size) {
    return std::to_string(size.width) + " x " + std::to_string(size.height);
  };
  const auto [least, most] = std::ranges::minmax_element(sizes, {}, pixels);
  return "from " + text(*least) + " to " + text(*most) + " pixels" +
         (every > 1 ? ", of " + std::to_string(sizes.size()) + " that were looked at" : "");
}

void tell_folder(const std::string& name, const vision::ImageFolder& images) {
  tell_note(name + ": " + counts_text(images));
  if (const std::string sizes = sizes_text(images); !sizes.empty()) tell_note(name + ": " + sizes);
  for (const auto& [what, count] : images.ignored())
    tell_note(name + ": ignored: " + std::to_string(count) + " " + what);
}

/// Images in a folder by class: with a folder to evaluate on, or some held out.
ClassifyData folder_data(const Recipe& recipe, DataUse use) {
  const auto& how = own<ClassifyRecipe>(recipe);
  vision::ImageFolderOptions options{
      .size = how.size,
      .held_out = how.held_out,
      .subset = vision::Subset::test,
      .on_broken = how.refuse_bad ? vision::OnBroken::refuse : vision::OnBroken::leave_out,
      .tell = broken_files("it is left out")};
  const std::string& test_path = how.test_path.empty() ? recipe.data.path : how.test_path;
  const vision::ImageFolder test(test_path, options);
  return data_of(recipe, use, test, {.channels = 3, .normalisation = options.normalisation}, [&] {
    options.subset = vision::Subset::train;
    options.augment = how.augment;
    options.seed = static_cast<std::uint64_t>(recipe.seed);
    if (!how.refuse_bad) options.on_broken = vision::OnBroken::stand_in;
    options.tell = broken_files("the next image stands in for it");
    vision::ImageFolder train(recipe.data.path, options);
    if (use == DataUse::train) {
      tell_counts(train.size(), test.size(), train.classes().size());
      tell_folder("to train on", train);
      if (!how.test_path.empty()) tell_folder("to evaluate on", test);
    }
    return train;
  });
}

}  // namespace

int image_side(const Recipe& recipe) {
  if (recipe.data.kind == "folder") return own<ClassifyRecipe>(recipe).size;
  return recipe.data.kind == "fashion_mnist" ? 28 : 32;
}

ClassifyData classify_data(const Recipe& recipe, DataUse use) {
  const auto& how = own<ClassifyRecipe>(recipe);
  const std::string& path = recipe.data.path;
  const auto seed = static_cast<std::uint64_t>(recipe.seed);
  if (recipe.data.kind == "folder") return folder_data(recipe, use);
  const bool grey = recipe.data.kind == "fashion_mnist";
  const auto set_of = [&](vision::Subset subset, const vision::ImageSetOptions& options) {
    return grey ? vision::fashion_mnist_set(
                      subset, path.empty() ? vision::kFashionMnistFolder : path, options)
                : vision::cifar10(subset, path, options);
  };
  vision::ImageSetOptions options{.normalisation = grey ? vision::fashion_mnist_normalisation()
                                                        : vision::cifar10_normalisation()};
  const vision::ImageSet test = set_of(vision::Subset::test, options);
  const ImageMeaning meaning{.channels = grey ? 1 : 3, .normalisation = options.normalisation};
  return data_of(recipe, use, test, meaning, [&] {
    options.augment = how.augment;
    options.seed = seed;
    vision::ImageSet train = set_of(vision::Subset::train, options);
    if (use == DataUse::train) tell_counts(train.size(), test.size(), train.classes().size());
    return train;
  });
}

}  // namespace lockstep::apps
