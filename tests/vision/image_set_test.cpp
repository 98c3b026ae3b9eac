#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/input.h>
#include <lockstep/vision/idx.h>
#include <lockstep/vision/image_set.h>

#include "input/shares.h"

namespace image_set_test {

using namespace lockstep;
using namespace lockstep::vision;
using Example = torch::data::Example<>;
namespace input = lockstep::input;

static_assert(input::Gathers<ImageSet>);

ImageSet make(const ImageSetOptions& options = {}, std::int64_t count = 20) {
  const auto images = torch::arange(count * 2 * 6 * 5).remainder(251).to(torch::kUInt8);
  return {
      images.view({count, 2, 6, 5}), torch::arange(count).remainder(3), {"a", "b", "c"}, options};
}

bool equal(const Example& a, const Example& b) {
  return torch::equal(a.data, b.data) && torch::equal(a.target, b.target);
}

TEST(ImageSet, WithoutAugmentationImagesAreNormalisedAndNothingElse) {
  const ImageSet set = make({.normalisation = {.mean = {0.5, 0.25}, .deviation = {0.5, 2}}});
  const std::vector<std::int64_t> indices = {3, 0, 19};
  const Example batch = set.gather(7, indices);
  const auto plain = set.images().index_select(0, torch::tensor(indices)).to(torch::kFloat64) / 255;
  const auto expected = (plain - torch::tensor({0.5, 0.25}).view({1, 2, 1, 1})) /
                        torch::tensor({0.5, 2.0}).view({1, 2, 1, 1});
  EXPECT_EQ(batch.data.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(torch::allclose(batch.data.to(torch::kFloat64), expected, 1e-6, 1e-6));
  EXPECT_TRUE(torch::equal(batch.target, torch::tensor({0, 0, 1}, torch::kInt64)));
}

TEST(ImageSet, ABatchEqualsItsItemsStacked) {
  const ImageSet set = make({.augment = true, .seed = 3});
  const auto items = input::map(set, [](Example item) { return item; });
  const auto together = input::batch(input::shuffle(set, 1), 6);
  const auto apart = input::batch(input::shuffle(items, 1), 6);
  for (std::int64_t i = 0; i < together.size(); ++i)
    EXPECT_TRUE(equal(together.at(2, i), apart.at(2, i))) << i;
}

TEST(ImageSet, AShareOfABatchMakesItsOwnRowsAlone) {
  const tests::Counted counted(make({.augment = true, .seed = 3}));
  tests::expect_shared(
      [&] {
        return input::prefetch(input::batch(input::shuffle(counted, 1), 7),
                               {.workers = 2, .epochs = 2});
      },
      counted);
}

TEST(ImageSet, AugmentationBelongsToSeedEpochAndImage) {
  const ImageSet set = make({.augment = true, .seed = 3});
  const std::vector<std::int64_t> all = {0, 1, 2, 3, 4, 5, 6, 7}, some = {5};
  const Example first = set.gather(0, all);
  EXPECT_TRUE(equal(set.gather(0, all), first));
  EXPECT_TRUE(torch::equal(set.gather(0, some).data[0], first.data[5]));
  EXPECT_FALSE(torch::equal(set.gather(1, all).data, first.data));
  EXPECT_FALSE(torch::equal(make({.augment = true, .seed = 4}).gather(0, all).data, first.data));
}

TEST(ImageSet, AnyNumberOfWorkersGivesTheSameBatches) {
  const auto batches = [](int workers) {
    return input::prefetch(input::batch(input::shuffle(make({.augment = true}), 1), 3),
                           {.workers = workers, .epochs = 3});
  };
  const auto one = batches(1), three = batches(3);
  int count = 0;
  while (const auto batch = one->next()) {
    EXPECT_TRUE(equal(*batch, three->next().value()));
    ++count;
  }
  EXPECT_EQ(count, 21);
  EXPECT_FALSE(three->next().has_value());
}

TEST(ImageSet, RefusesWhatDoesNotFitTogether) {
  const auto images = torch::zeros({4, 1, 2, 2}, torch::kUInt8);
  const auto labels = torch::zeros({4}, torch::kInt64);
  EXPECT_NO_THROW(ImageSet(images, labels, {"a"}));
  EXPECT_THROW(ImageSet(images.to(torch::kFloat32), labels, {"a"}), ConfigError);
  EXPECT_THROW(ImageSet(images[0], labels, {"a"}), ConfigError);
  EXPECT_THROW(ImageSet(images, labels.narrow(0, 0, 3), {"a"}), ConfigError);
  EXPECT_THROW(ImageSet(images, labels.to(torch::kInt32), {"a"}), ConfigError);
  EXPECT_THROW(ImageSet(images, labels + 1, {"a"}), ConfigError);
  EXPECT_THROW(ImageSet(images, labels - 1, {"a"}), ConfigError);
  EXPECT_THROW(ImageSet(images, labels, {"a"}, {.padding = -1}), ConfigError);
  EXPECT_THROW(ImageSet(images, labels, {"a"}, {.normalisation = {{1, 2}, {1, 2}}}), ConfigError);
  const std::vector<std::int64_t> outside = {4};
  EXPECT_THROW(ImageSet(images, labels, {"a"}).gather(0, outside), std::logic_error);
}

TEST(FashionMnistSet, NormalisedHasMean0AndDeviation1) {
  const ImageSet set = fashion_mnist_set(Subset::train, kFashionMnistFolder,
                                         {.normalisation = fashion_mnist_normalisation()});
  ASSERT_EQ(set.size(), 60000);
  EXPECT_EQ(set.classes().size(), 10U);
  const auto data = input::batch(set, 60000).at(0, 0).data;
  EXPECT_NEAR(data.mean().item<double>(), 0, 0.001);
  EXPECT_NEAR(data.std().item<double>(), 1, 0.001);
}

TEST(FashionMnistSet, HasTheImagesAndLabelsOfTheFloats) {
  const Example batch = input::batch(fashion_mnist_set(Subset::test), 10000).at(0, 0);
  const LabelledImages floats = fashion_mnist(Subset::test);
  EXPECT_TRUE(torch::allclose(batch.data, floats.images));
  EXPECT_TRUE(torch::equal(batch.target, floats.labels));
}

}  // namespace image_set_test
