// Views of pictures: what they show of the boxes, and the pixels that go with it.

#include <gtest/gtest.h>
#include <lockstep/vision/box_augment.h>

#include <cmath>
#include <set>

#include "vision/pictures.h"

namespace box_augment_test {

using namespace lockstep;
using namespace lockstep::vision;

constexpr ImageSize kSize{400, 200};

std::vector<LabelledBox> two_things() {
  return {{.box = {20, 40, 100, 60}, .label = 0}, {.box = {250, 50, 120, 120}, .label = 1}};
}

View view_of(const BoxAugment& augment, std::int64_t item,
             const std::vector<LabelledBox>& boxes = two_things()) {
  KeyedRandom random(7, 0, item);
  return random_view(kSize, boxes, augment, random);
}

TEST(SeenBoxes, ArePartsOfTheWholePicture) {
  const SeenBoxes seen = seen_boxes(two_things(), whole_view(kSize));
  ASSERT_EQ(seen.things.size(), 2U);
  EXPECT_EQ(seen.labels, (std::vector<int>{0, 1}));
  EXPECT_FLOAT_EQ(seen.things[0].left, 0.05F);
  EXPECT_FLOAT_EQ(seen.things[0].top, 0.2F);
  EXPECT_FLOAT_EQ(seen.things[0].right, 0.3F);
  EXPECT_FLOAT_EQ(seen.things[0].bottom, 0.5F);
}

TEST(SeenBoxes, AreMirroredWithTheView) {
  View view = whole_view(kSize);
  view.flip = true;
  const SeenBoxes seen = seen_boxes(two_things(), view);
  EXPECT_FLOAT_EQ(seen.things[0].left, 0.7F);
  EXPECT_FLOAT_EQ(seen.things[0].right, 0.95F);
  EXPECT_FLOAT_EQ(seen.things[0].top, 0.2F);
}

TEST(SeenBoxes, AreCutToTheViewAndLeftOutWhenTooLittleIsInside) {
  View view{.area = {70, 0, 200, 200}};
  SeenBoxes seen = seen_boxes(two_things(), view);
  ASSERT_EQ(seen.things.size(), 2U);  // half of the first, a sixth of the second
  EXPECT_FLOAT_EQ(seen.things[0].left, 0);
  EXPECT_FLOAT_EQ(seen.things[0].right, 0.25F);
  EXPECT_FLOAT_EQ(seen.things[1].left, 0.9F);
  EXPECT_FLOAT_EQ(seen.things[1].right, 1);
  view.least_covered = 0.5;  // exactly half stays
  EXPECT_EQ(seen_boxes(two_things(), view).labels, (std::vector<int>{0}));
  view.area = {120, 0, 130, 200};  // touches both
  view.least_covered = 0;
  EXPECT_TRUE(seen_boxes(two_things(), view).things.empty());
}

TEST(SeenBoxes, LeaveOutCrowds) {
  auto boxes = two_things();
  boxes[0].crowd = true;
  EXPECT_EQ(seen_boxes(boxes, whole_view(kSize)).labels, (std::vector<int>{1}));
}

TEST(RandomView, WithoutAugmentationIsTheWholePicture) {
  const View view = view_of({}, 3);
  EXPECT_EQ(view.area, whole_view(kSize).area);
  EXPECT_FALSE(view.flip || view.changes_colours);
}

TEST(RandomView, IsAFunctionOfItsKey) {
  const BoxAugment all{.flip = true, .crop = true, .expand = 4, .jitter = 0.5};
  std::set<double> lefts;
  for (int item = 0; item < 50; ++item) {
    const View one = view_of(all, item), two = view_of(all, item);
    EXPECT_EQ(one.area, two.area);
    EXPECT_EQ(one.flip, two.flip);
    EXPECT_EQ(one.colours, two.colours);
    lefts.insert(one.area.left);
  }
  EXPECT_GT(lefts.size(), 25U);
}

TEST(RandomView, CropsHaveWholePixelsTheAreasAndRatiosOfSsdAndCoverAThing) {
  int cropped = 0, kept_none = 0;
  for (int item = 0; item < 3000; ++item) {
    const View view = view_of({.crop = true}, item);
    const Box& area = view.area;
    if (area == whole_view(kSize).area) continue;
    ++cropped;
    EXPECT_EQ(area.left, std::floor(area.left));
    EXPECT_EQ(area.width, std::floor(area.width));
    EXPECT_GE(area.left, 0);
    EXPECT_GE(area.top, 0);
    EXPECT_LE(area.right(), kSize.width);
    EXPECT_LE(area.bottom(), kSize.height);
    EXPECT_GE(area.area(), 0.1 * kSize.width * kSize.height);
    EXPECT_GE(area.width / area.height, 0.5 - 0.02);  // rounded to pixels
    EXPECT_LE(area.width / area.height, 2 + 0.02);
    double best = 0;
    for (const LabelledBox& thing : two_things())
      best = std::max(best, shared_area(area, thing.box) / thing.box.area());
    EXPECT_GE(best, view.least_covered);
    kept_none += seen_boxes(two_things(), view).things.empty() ? 1 : 0;
  }
  EXPECT_NEAR(cropped, 0.85 * 3000, 150);
  EXPECT_GT(kept_none, 0);  // a share of 0 asks for nothing
}

TEST(RandomView, CropsOfAPictureWithoutThingsTreatItAsOne) {
  for (int item = 0; item < 500; ++item) {
    const View view = view_of({.crop = true}, item, {});
    EXPECT_GE(view.area.area(), view.least_covered * kSize.width * kSize.height - 1e-6);
  }
}

TEST(RandomView, ZoomsOutOfHalfOfThePictures) {
  int wider = 0;
  for (int item = 0; item < 1000; ++item) {
    const Box area = view_of({.expand = 3}, item).area;
    EXPECT_LE(area.left, 0);
    EXPECT_GE(area.right(), kSize.width);
    EXPECT_LE(area.width, 3 * kSize.width);
    EXPECT_NEAR(area.width / area.height, 2, 0.01);
    wider += area.width > kSize.width ? 1 : 0;
    EXPECT_EQ(seen_boxes(two_things(), {.area = area}).things.size(), 2U);
  }
  EXPECT_NEAR(wider, 500, 80);
}

std::vector<float> written(const Image& image, const View& view, int size,
                           const Normalisation& normalisation = {}) {
  std::vector<float> to(static_cast<std::size_t>(3 * size * size), -100);
  write_view(image, {image.width, image.height}, view, size, ByteScale(normalisation, 3),
             to.data());
  return to;
}

TEST(WriteView, EqualsTheClassifiersResizeInsideThePicture) {
  const Image image = tests::gradient(60, 40);
  const View view{.area = {10, 5, 30, 30}, .flip = true};
  std::vector<float> expected(3 * 16 * 16);
  const ByteScale scale(Normalisation{}, 3);
  write_resized(image, view.area, 16, true, scale, expected.data());
  EXPECT_EQ(written(image, view, 16), expected);
}

TEST(WriteView, ShowsTheMeanBeyondThePicture) {
  const Image image = tests::gradient(40, 40);
  const Normalisation how{.mean = {0.2, 0.4, 0.6}, .deviation = {0.5, 0.5, 0.5}};
  const auto found = written(image, {.area = {-40, -40, 80, 80}}, 20, how);
  for (int channel = 0; channel < 3; ++channel)
    for (int y = 0; y < 20; ++y)
      for (int x = 0; x < 20; ++x) {
        const float value = found[static_cast<std::size_t>((channel * 20 + y) * 20 + x)];
        if (x >= 10 && y >= 10) continue;
        EXPECT_NEAR(value, 0, 1e-5) << x << " " << y;
      }
  EXPECT_GT(found[static_cast<std::size_t>(15 * 20 + 18)], 0.5F);  // red, to the right
}

TEST(WriteView, PutsPixelsWhereTheBoxesAre) {
  Image image{100, 50, 3, std::vector<std::uint8_t>(100 * 50 * 3, 0)};
  const LabelledBox thing{.box = {30, 10, 20, 30}};
  for (int y = 10; y < 40; ++y)
    for (int x = 30; x < 50; ++x) image.pixels[static_cast<std::size_t>(3 * (y * 100 + x))] = 255;
  const BoxAugment all{.flip = true, .crop = true, .expand = 3};
  constexpr int kSide = 64;
  for (int item = 0; item < 60; ++item) {
    KeyedRandom random(3, 1, item);
    const View view = random_view({100, 50}, std::span(&thing, 1), all, random);
    const SeenBoxes seen = seen_boxes(std::span(&thing, 1), view);
    if (seen.things.empty()) continue;
    const auto red = written(image, view, kSide);
    const Corners box = seen.things[0];
    for (int y = 0; y < kSide; ++y)
      for (int x = 0; x < kSide; ++x) {
        const float across = (static_cast<float>(x) + 0.5F) / kSide;
        const float down = (static_cast<float>(y) + 0.5F) / kSide;
        const float edge = 2.5F / kSide;  // there the filter mixes
        const float inside =
            std::min({across - box.left, box.right - across, down - box.top, box.bottom - down});
        const float value = red[static_cast<std::size_t>(y * kSide + x)];
        if (inside > edge) {
          EXPECT_GT(value, 0.95F) << item;
        } else if (inside < -edge) {
          EXPECT_LT(value, 0.05F) << item;
        }
      }
  }
}

TEST(WriteView, ChangesOfColoursKeepGreyGreyAndStayInRange) {
  const Image grey{8, 8, 3, std::vector<std::uint8_t>(8 * 8 * 3, 120)};
  for (int item = 0; item < 40; ++item) {
    const View view = view_of({.jitter = 0.9}, item, {});
    View small = view;
    small.area = {0, 0, 8, 8};
    const auto found = written(grey, small, 4);
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_NEAR(found[i], found[i + 16], 1e-4);
      EXPECT_NEAR(found[i], found[i + 32], 1e-4);
      EXPECT_GE(found[i], 0);
      EXPECT_LE(found[i], 1.00001F);
    }
  }
}

}  // namespace box_augment_test
