#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/input.h>
#include <lockstep/vision/image_folder.h>

#include <map>
#include <set>

#include "folder.h"
#include "input/shares.h"
#include "pictures.h"

namespace image_folder_test {

using namespace lockstep;
using namespace lockstep::vision;
using tests::gradient;
using tests::jpeg;
using tests::png_file;
namespace fs = std::filesystem;
namespace input = lockstep::input;

static_assert(input::Gathers<ImageFolder>);

class Pictures : public testing::Test {
 protected:
  /// Two classes, three files.
  void fill() const {
    folder_.write("dog/2.JPG", jpeg(gradient(300, 200)));
    folder_.write("dog/1.png", png_file(60, 50, PNG_FORMAT_RGB, gradient(60, 50).pixels.data()));
    folder_.write("cat/a.jpeg", jpeg(gradient(64, 64)));
  }

  template <class Error>
  void expect_error(const std::string& what) const {
    try {
      ImageFolder(folder_.path(), {});
      FAIL() << "opened, expected: " << what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  }

  tests::Folder folder_;
};

TEST_F(Pictures, ClassesAndFilesAreSortedAndCounted) {
  fill();
  folder_.write("dog/notes.txt", {});
  folder_.write("dog/.hidden.jpg", {});
  folder_.write(".cache/x.jpg", {});
  folder_.write("readme.md", {});
  const ImageFolder images(folder_.path());
  EXPECT_EQ(images.classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(images.counts(), (std::vector<std::int64_t>{1, 2}));
  ASSERT_EQ(images.size(), 3);
  EXPECT_EQ(images.file(0), folder_.path("cat/a.jpeg"));
  EXPECT_EQ(images.file(1), folder_.path("dog/1.png"));
  EXPECT_EQ(images.file(2), folder_.path("dog/2.JPG"));
  EXPECT_EQ(images.label(0), 0);
  EXPECT_EQ(images.label(2), 1);
}

TEST_F(Pictures, WhatIsIgnoredIsCounted) {
  fill();
  for (const char* name :
       {"dog/notes.txt", "cat/a.gif", "dog/b.gif", "dog/more/c.jpg", "readme.md"})
    folder_.write(name, {});
  const std::map<std::string, std::int64_t> expected = {{".gif files", 2},
                                                        {".txt files", 1},
                                                        {"files beside the classes", 1},
                                                        {"folders inside of classes", 1}};
  EXPECT_EQ(ImageFolder(folder_.path()).ignored(), expected);
}

TEST_F(Pictures, ABrokenImageIsReplacedByTheNextOrLeftOutAndToldOnce) {
  fill();
  folder_.write("cat/a.jpeg", tests::Bytes{0xff, 0xd8, 0xff, 0});
  std::vector<std::string> told;
  ImageFolderOptions options{.size = 8,
                             .tell = [&](const std::string& what) { told.push_back(what); }};
  const std::vector<std::int64_t> all = {0, 1, 2};
  EXPECT_THROW(ImageFolder(folder_.path(), options).gather(0, all), CorruptFile);
  EXPECT_TRUE(told.empty());

  options.on_broken = OnBroken::stand_in;
  const ImageFolder replaced(folder_.path(), options);
  const auto batch = replaced.gather(0, all);
  EXPECT_TRUE(torch::equal(batch.target, torch::ones({3}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.data[0], batch.data[1])) << "the next stands in";
  replaced.gather(1, all);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("cat/a.jpeg"), std::string::npos) << told[0];

  options.on_broken = OnBroken::leave_out;
  const ImageFolder without(folder_.path(), options);
  EXPECT_EQ(without.gather(0, all).data.sizes(), (std::vector<std::int64_t>{2, 3, 8, 8}));
  EXPECT_TRUE(torch::equal(without.gather(0, all).data, batch.data.slice(0, 1)));
  EXPECT_THROW(without.at(0, 0), ConfigError);
}

TEST_F(Pictures, NothingStandsInWhenAllAreBroken) {
  folder_.write("cat/a.jpeg", tests::Bytes{1});
  const ImageFolder images(folder_.path(), {.on_broken = OnBroken::stand_in});
  EXPECT_THROW(images.at(0, 0), CorruptFile);
}

TEST_F(Pictures, HeldOutImagesAreInOnePartOnlyByTheirNames) {
  const auto image = png_file(8, 8, PNG_FORMAT_RGB, gradient(8, 8).pixels.data());
  for (int i = 0; i < 100; ++i)
    folder_.write((i % 2 ? "cat/" : "dog/") + std::to_string(i) + ".png", image);
  const auto part = [&](Subset subset) {
    const ImageFolder images(folder_.path(), {.held_out = 0.3, .subset = subset});
    EXPECT_EQ(images.classes().size(), 2U);
    std::set<std::string> files;
    for (std::int64_t i = 0; i < images.size(); ++i) files.insert(images.file(i));
    return files;
  };
  const auto train = part(Subset::train), test = part(Subset::test);
  EXPECT_EQ(train.size() + test.size(), 100U);
  EXPECT_GT(test.size(), 15U);
  EXPECT_LT(test.size(), 45U);
  for (const std::string& file : test) EXPECT_FALSE(train.contains(file));
  folder_.write("cat/new.png", image);
  for (const std::string& file : part(Subset::test))
    EXPECT_FALSE(train.contains(file)) << "what is there stays where it is";
}

TEST_F(Pictures, TheMiddleOfAFileIsWhatAnEvaluationSees) {
  fill();
  const ImageFolderOptions options{.size = 16};
  const auto expected = ImageFolder(folder_.path(), options).at(0, 1).data;
  const auto bytes = png_file(60, 50, PNG_FORMAT_RGB, gradient(60, 50).pixels.data());
  EXPECT_TRUE(torch::equal(seen_middle("1.png", bytes, options), expected));
}

/// The gradient's middle, 7/8 of the short side: red grows to the right, green down.
TEST_F(Pictures, ForEvaluationTheMiddleIsTaken) {
  fill();
  const ImageFolder images(folder_.path(), {.size = 32, .normalisation = {}});
  const auto item = images.at(0, 2);
  EXPECT_EQ(item.target.item<int>(), 1);
  ASSERT_EQ(item.data.sizes(), torch::IntArrayRef({3, 32, 32}));
  const double left = (300 - 175) / 2.0 / 300, side = 175.0 / 300;
  EXPECT_NEAR(item.data[0][16][0].item<double>(), left + side * 0.5 / 32, 0.03);
  EXPECT_NEAR(item.data[0][16][31].item<double>(), left + side * 31.5 / 32, 0.03);
  EXPECT_NEAR(item.data[1][0][16].item<double>(), 0.0625 + 0.875 * 0.5 / 32, 0.03);
  EXPECT_NEAR(item.data[2][31][16].item<double>(), 1 - (0.0625 + 0.875 * 31.5 / 32), 0.03);
  EXPECT_TRUE(torch::equal(images.at(5, 2).data, item.data));
}

TEST_F(Pictures, AScaledJpegLooksLikeTheWholeOne) {
  folder_.write("a/large.jpg", jpeg(gradient(1600, 1200)));
  folder_.write("b/large.png",
                png_file(1600, 1200, PNG_FORMAT_RGB, gradient(1600, 1200).pixels.data()));
  for (const bool augment : {false, true}) {
    const ImageFolder images(folder_.path(), {.size = 64, .augment = augment, .normalisation = {}});
    for (int epoch = 0; epoch < 5; ++epoch) {
      const auto data = images.at(epoch, 0).data;
      EXPECT_GE(data.min().item<double>(), -0.01);
      EXPECT_LE(data.max().item<double>(), 1.01);
      if (!augment) {
      }
    }
  }
}

TEST_F(Pictures, AugmentationBelongsToSeedEpochAndImage) {
  fill();
  const ImageFolder images(folder_.path(), {.size = 24, .augment = true, .seed = 1});
  const ImageFolder other(folder_.path(), {.size = 24, .augment = true, .seed = 2});
  const std::vector<std::int64_t> all = {0, 1, 2};
  const auto first = images.gather(0, all);
  EXPECT_TRUE(torch::equal(images.gather(0, all).data, first.data));
  EXPECT_TRUE(torch::equal(images.at(0, 1).data, first.data[1]));
  EXPECT_FALSE(torch::equal(images.gather(1, all).data, first.data));
  EXPECT_FALSE(torch::equal(other.gather(0, all).data, first.data));
  EXPECT_TRUE(torch::equal(first.target, torch::tensor({0, 1, 1}, torch::kInt64)));
}

TEST_F(Pictures, AnyNumberOfWorkersGivesTheSameBatches) {
  fill();
  const ImageFolder images(folder_.path(), {.size = 24, .augment = true});
  const auto batches = [&](int workers) {
    return input::prefetch(input::batch(input::shuffle(images, 1), 2),
                           {.workers = workers, .epochs = 4});
  };
  const auto one = batches(1), three = batches(3);
  while (const auto batch = one->next())
    EXPECT_TRUE(torch::equal(batch->data, three->next().value().data));
}

/// As the program streams them.
TEST_F(Pictures, AShareOfABatchDecodesItsOwnRowsAlone) {
  fill();
  for (int i = 0; i < 8; ++i)
    folder_.write("cat/more" + std::to_string(i) + ".jpg", jpeg(gradient(40 + i, 40)));
  const tests::Counted counted(ImageFolder(folder_.path(), {.size = 24, .augment = true}));
  tests::expect_shared(
      [&] {
        return input::prefetch(input::batch(input::shuffle(counted, 1), 4),
                               {.workers = 2, .epochs = 2});
      },
      counted);
}

/// Only the files of the share are there.
TEST_F(Pictures, AShareNeedsNoFilesOfTheOthers) {
  for (int i = 0; i < 8; ++i)
    folder_.write("cat/" + std::to_string(i) + ".jpg", jpeg(gradient(40 + i, 40)));
  const ImageFolder images(folder_.path(), {.size = 24, .augment = true});
  const auto shuffled = input::shuffle(images, 1);
  const auto batches = input::batch(shuffled, 8);
  const auto whole = batches.at(0, 0);
  const Portion portion{{4, 1, 2}, 8};
  for (std::int64_t row = 0; row < 8; ++row)
    if (row < portion.range().begin || row >= portion.range().end)
      fs::remove(images.file(shuffled.original(0, row)));
  const auto stream = input::prefetch(batches, {.depth = 2, .workers = 2, .epochs = 1});
  ASSERT_TRUE(stream->share(portion.share));
  const auto own = stream->next();
  ASSERT_TRUE(own.has_value());
  tests::expect_portion(whole, *own, stream->portion(), portion.share);
  stream->seek({0, 0});
  ASSERT_TRUE(stream->share({4, 0, 1}));
  EXPECT_THROW(stream->next(), IoError);
}

TEST_F(Pictures, ABrokenFileIsNamedAndTheOthersAreStillThere) {
  fill();
  auto bytes = jpeg(gradient(64, 64));
  bytes.resize(bytes.size() / 2);
  const std::string broken = folder_.write("cat/broken.jpg", bytes);
  const ImageFolder images(folder_.path(), {.size = 24});
  const auto items = input::prefetch(images, {.workers = 2, .epochs = 1});
  items->next();
  try {
    items->next();
    FAIL();
  } catch (const CorruptFile& error) {
    EXPECT_EQ(error.path, broken);
  }
  items->seek({0, 2});
  EXPECT_TRUE(items->next().has_value());
  fs::remove(broken);
  EXPECT_THROW(images.at(0, 1), IoError);
}

TEST_F(Pictures, WhatIsNoFolderOfClassesIsRefusedByName) {
  expect_error<ConfigError>("no classes");
  folder_.write("loose.jpg", jpeg(gradient(8, 8)));
  expect_error<ConfigError>("no classes");
  fill();
  fs::create_directory(folder_.path("empty"));
  expect_error<ConfigError>(folder_.path("empty") + ": no images");
  try {
    ImageFolder(folder_.path("not-there"));
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.path, folder_.path("not-there"));
    EXPECT_EQ(error.error_number, ENOENT);
  }
}

TEST_F(Pictures, OptionsThatMakeNoSenseAreRefused) {
  fill();
  EXPECT_THROW(ImageFolder(folder_.path(), {.size = 0}), ConfigError);
  EXPECT_THROW(ImageFolder(folder_.path(), {.centre = 0}), ConfigError);
  EXPECT_THROW(ImageFolder(folder_.path(), {.centre = 1.5}), ConfigError);
  EXPECT_THROW(ImageFolder(folder_.path(), {.normalisation = {{0.5}, {0.5}}}), ConfigError);
}

}  // namespace image_folder_test
