// Batches of pictures with boxes: the same whoever makes them, and what becomes of broken ones.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/input.h>
#include <lockstep/vision/boxed_pictures.h>
#include <lockstep/vision/detection_results.h>

#include <filesystem>
#include <fstream>

#include "input/shares.h"
#include "vision/pictures.h"

namespace boxed_pictures_test {

using namespace lockstep;
using namespace lockstep::vision;
namespace fs = std::filesystem;

static_assert(lockstep::detail::kPortionable<DetectionBatch>);

/// Pictures a.jpg to d.jpg in a folder of their own; the third may be cut.
class BoxedPicturesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::temp_directory_path() / ("lockstep-boxed-" + std::to_string(::getpid()) + "-" +
                                     testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
    set_ = std::make_shared<BoxSet>();
    set_->classes = {"cat", "dog"};
    set_->class_ids = {1, 2};
    for (int i = 0; i < 4; ++i) {
      const std::string path = folder_ / (std::string(1, static_cast<char>('a' + i)) + ".jpg");
      write(path, tests::jpeg(tests::gradient(80 + 10 * i, 60)));
      set_->pictures.push_back({.path = path, .id = 10 + i, .size = {80 + 10 * i, 60}});
      if (i != 1) set_->pictures.back().boxes = {{.box = {10, 10, 40, 40}, .label = i % 2}};
    }
    options_.size = 64;
    options_.anchors = make_anchors({.grids = {4, 2, 1, 1, 1, 1}});
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void write(const std::string& path, const tests::Bytes& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  void break_third() {
    auto bytes = tests::jpeg(tests::gradient(100, 60));
    bytes.resize(bytes.size() / 2);
    write(set_->pictures[2].path, bytes);
  }

  fs::path folder_;
  std::shared_ptr<BoxSet> set_;
  BoxedPicturesOptions options_;
};

TEST_F(BoxedPicturesTest, GatherEqualsTheSingleItems) {
  options_.augment = {.flip = true, .crop = true, .expand = 2, .jitter = 0.4};
  const BoxedPictures pictures(set_, options_);
  const DetectionBatch batch = pictures.gather(3, std::vector<std::int64_t>{2, 0, 3});
  EXPECT_EQ(batch.images.sizes(), (std::vector<std::int64_t>{3, 3, 64, 64}));
  EXPECT_TRUE(batch.images.is_contiguous(at::MemoryFormat::ChannelsLast));
  const std::array<std::int64_t, 3> order = {2, 0, 3};
  for (std::int64_t row = 0; row < 3; ++row) {
    const DetectionBatch one = pictures.at(3, order[static_cast<std::size_t>(row)]);
    EXPECT_TRUE(torch::equal(batch.images[row], one.images[0]));
    EXPECT_TRUE(torch::equal(batch.labels[row], one.labels[0]));
    EXPECT_TRUE(torch::equal(batch.codes[row], one.codes[0]));
  }
  EXPECT_FALSE(torch::equal(batch.images[0], pictures.at(4, 2).images[0]));  // another epoch
}

TEST_F(BoxedPicturesTest, TargetsAreThoseOfTheBoxes) {
  const DetectionBatch batch =
      BoxedPictures(set_, options_).gather(0, std::vector<std::int64_t>{0, 1, 3});
  EXPECT_GT((batch.labels[0] == 1).sum().item<int>(), 0);
  EXPECT_EQ((batch.labels[0] == 2).sum().item<int>(), 0);
  EXPECT_EQ(batch.labels[1].abs().sum().item<int>(), 0);  // nothing is in it
  EXPECT_GT((batch.labels[2] == 2).sum().item<int>(), 0);
  EXPECT_EQ(batch.pictures[2].item<int>(), 3);
}

TEST_F(BoxedPicturesTest, ABrokenPictureIsStoodInForByTheNextOneAndToldOnce) {
  break_third();
  std::vector<std::string> told;
  options_.tell = [&](const std::string& problem) { told.push_back(problem); };
  const BoxedPictures pictures(set_, options_);
  const DetectionBatch batch = pictures.gather(0, std::vector<std::int64_t>{2, 3, 2});
  EXPECT_TRUE(torch::equal(batch.images[0], batch.images[1]));
  EXPECT_TRUE(torch::equal(batch.labels[0], batch.labels[1]));
  EXPECT_EQ(batch.pictures[0].item<int>(), 3);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("c.jpg"), std::string::npos);
}

TEST_F(BoxedPicturesTest, ABrokenPictureIsLeftOutOfAnEvaluation) {
  break_third();
  options_.on_broken = OnBroken::leave_out;
  const DetectionBatch batch =
      BoxedPictures(set_, options_).gather(0, std::vector<std::int64_t>{1, 2});
  EXPECT_EQ(batch.pictures[1].item<int>(), -1);
  const auto rows = judged(*set_, batch.pictures, {{}, {}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].id, 11);
}

TEST_F(BoxedPicturesTest, ABrokenPictureIsRefusedByNameWhenAskedFor) {
  break_third();
  options_.on_broken = OnBroken::refuse;
  const BoxedPictures pictures(set_, options_);
  EXPECT_THROW(pictures.at(0, 2), CorruptFile);
}

TEST_F(BoxedPicturesTest, WorkersMakeTheSameBatches) {
  options_.augment = {.flip = true, .crop = true};
  const auto batches = input::batch(input::shuffle(BoxedPictures(set_, options_), 5), 3);
  const auto alone = input::prefetch(batches, {.workers = 1, .epochs = 2});
  const auto together = input::prefetch(batches, {.workers = 3, .epochs = 2});
  int count = 0;
  while (auto one = alone->next()) {
    const auto other = together->next();
    ASSERT_TRUE(other);
    EXPECT_TRUE(torch::equal(one->images, other->images));
    EXPECT_TRUE(torch::equal(one->codes, other->codes));
    ++count;
  }
  EXPECT_EQ(count, 4);
}

/// As the program streams them; the third picture is broken, and another stands in for it.
TEST_F(BoxedPicturesTest, AShareOfABatchDecodesItsOwnRowsAlone) {
  break_third();
  options_.augment = {.flip = true, .crop = true, .expand = 2, .jitter = 0.4};
  const tests::Counted counted(BoxedPictures(set_, options_));
  tests::expect_shared(
      [&] {
        return input::prefetch(input::batch(input::shuffle(counted, 5), 3),
                               {.workers = 2, .epochs = 2});
      },
      counted);
}

/// Only the pictures of the share are there.
TEST_F(BoxedPicturesTest, AShareNeedsNoPicturesOfTheOthers) {
  const auto shuffled = input::shuffle(BoxedPictures(set_, options_), 5);
  const auto batches = input::batch(shuffled, 4);
  const DetectionBatch whole = batches.at(0, 0);
  const Portion portion{{4, 1, 3}, 4};
  for (const std::int64_t row : {0, 3})
    fs::remove(set_->pictures[static_cast<std::size_t>(shuffled.original(0, row))].path);
  const auto stream = input::prefetch(batches, {.workers = 2, .epochs = 1});
  ASSERT_TRUE(stream->share(portion.share));
  const auto own = stream->next();
  ASSERT_TRUE(own.has_value());
  tests::expect_portion(whole, *own, stream->portion(), portion.share);
  stream->seek({0, 0});
  ASSERT_TRUE(stream->share({4, 2, 4}));
  EXPECT_THROW(stream->next(), IoError);
}

TEST_F(BoxedPicturesTest, AreShownWithTheBoxesOfTheirAnchors) {
  const DetectionBatch batch =
      BoxedPictures(set_, options_).gather(0, std::vector<std::int64_t>{0, 1});
  const std::vector<Image> images = shown(batch, options_, set_->classes);
  ASSERT_EQ(images.size(), 2U);
  EXPECT_EQ(images[0].width, 64);
  // The first pixels are the gradient's again; the frame is on the first picture only.
  EXPECT_NEAR(images[1].pixels[2], 255, 12);
  EXPECT_NE(images[0].pixels, images[1].pixels);
}

TEST_F(BoxedPicturesTest, ResultsOfPartsSummariseAsTheWhole) {
  DetectionResults whole, parts;
  for (const BoxedPicture& picture : set_->pictures) {
    DetectionResults one{.metrics = {{"loss", {2.0, 4}}},
                         .pictures = {{picture.id, picture.boxes, {}}}};
    for (const LabelledBox& thing : picture.boxes)
      one.pictures[0].found.push_back({thing.box, thing.label, 0.9});
    whole += one;
  }
  for (std::size_t i = 4; i-- > 0;)
    parts += {.metrics = {{"loss", {2.0, 4}}}, .pictures = {whole.pictures[i]}};
  const Summary one = summarise(whole, *set_), other = summarise(parts, *set_);
  EXPECT_EQ(one.metrics, other.metrics);
  EXPECT_DOUBLE_EQ(one.metrics.at("AP"), 1);
  EXPECT_DOUBLE_EQ(one.metrics.at("voc2007"), 1);
  EXPECT_DOUBLE_EQ(one.metrics.at("loss"), 0.5);
  EXPECT_EQ(one.images.at("detections").pixels, other.images.at("detections").pixels);
  EXPECT_TRUE(one.images.contains("confusion") && one.images.contains("precision_recall"));
  EXPECT_NE(one.texts.at("classes").find("cat"), std::string::npos);
}

}  // namespace boxed_pictures_test
