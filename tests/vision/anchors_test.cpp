// Anchors and box codes: values of TensorFlow's Object Detection API.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/vision/anchors.h>

#include <cmath>

namespace anchors_test {

using namespace lockstep;
using namespace lockstep::vision;

void expect_near(const Corners& found, const Corners& expected, float tolerance) {
  EXPECT_NEAR(found.top, expected.top, tolerance);
  EXPECT_NEAR(found.left, expected.left, tolerance);
  EXPECT_NEAR(found.bottom, expected.bottom, tolerance);
  EXPECT_NEAR(found.right, expected.right, tolerance);
}

TEST(Anchors, AreThoseOfTensorFlow) {
  const std::vector<Corners> anchors = make_anchors();
  ASSERT_EQ(anchors.size(), 1917U);
  const struct {
    std::size_t number;
    Corners expected;
  } references[] = {{0, {-0.0236842F, -0.0236842F, 0.0763158F, 0.0763158F}},
                    {1, {-0.0443949F, -0.1151056F, 0.0970265F, 0.1677372F}},
                    {2, {-0.1151056F, -0.0443949F, 0.1677372F, 0.0970265F}},
                    {3, {-0.0236842F, 0.0289474F, 0.0763158F, 0.1289474F}},
                    {1082, {0.8322629F, 0.9029736F, 1.1151056F, 1.0443950F}},
                    {1083, {-0.125F, -0.125F, 0.225F, 0.225F}},
                    {1088, {-0.1591650F, -0.1591650F, 0.2591650F, 0.2591650F}},
                    {1683, {-0.15F, -0.15F, 0.35F, 0.35F}},
                    {1916, {0.0126603F, 0.0126603F, 0.9873397F, 0.9873397F}}};
  // The references have 7 digits after the point, and TensorFlow computes them in float32.
  for (const auto& [number, expected] : references) expect_near(anchors[number], expected, 2e-7F);
  double sum = 0;
  for (const Corners& anchor : anchors)
    sum += double{anchor.top} + anchor.left + anchor.bottom + anchor.right;
  EXPECT_NEAR(sum, 3834, 1e-4);
}

TEST(Anchors, ReachBeyondThePicture) {
  float least = 0, most = 0;
  for (const Corners& anchor : make_anchors()) {
    least = std::min({least, anchor.top, anchor.left});
    most = std::max({most, anchor.bottom, anchor.right});
  }
  EXPECT_NEAR(least, -0.443, 1e-3);
  EXPECT_NEAR(most, 1.443, 1e-3);
}

TEST(Anchors, ACellHasOneForEachRatioAndOneMore) {
  const AnchorOptions options;
  EXPECT_EQ(anchors_per_cell(options, 0), 3);
  for (std::size_t map = 1; map < 6; ++map) EXPECT_EQ(anchors_per_cell(options, map), 6);
  EXPECT_EQ(anchors_per_cell({.reduce_finest = false}, 0), 6);
  EXPECT_EQ(make_anchors({.grids = {4, 2}, .ratios = {1, 3}}).size(), 4U * 4 * 3 + 2 * 2 * 3);
  EXPECT_EQ(make_anchors({.grids = {2}, .ratios = {1}, .reduce_finest = false}).size(), 8U);
}

TEST(Anchors, OptionsThatMakeNoneAreRefused) {
  EXPECT_THROW(make_anchors({.grids = {}}), ConfigError);
  EXPECT_THROW(make_anchors({.grids = {3, 0}}), ConfigError);
  EXPECT_THROW(make_anchors({.ratios = {1, 0}}), ConfigError);
  EXPECT_THROW(make_anchors({.min_scale = 0}), ConfigError);
  EXPECT_THROW(make_anchors({.min_scale = 0.5, .max_scale = 0.2}), ConfigError);
}

TEST(Anchors, OverlapIsTheSharedAreaOfTheUnion) {
  const Corners box{0, 0, 1, 1};
  EXPECT_EQ(overlap(box, box), 1);
  EXPECT_EQ(overlap(box, {0, 0.5F, 1, 1}), 0.5);
  EXPECT_EQ(overlap(box, {0.5F, 0.5F, 1.5F, 1.5F}), 0.25 / 1.75);
  EXPECT_EQ(overlap(box, {1, 0, 2, 1}), 0);              // touches
  EXPECT_EQ(overlap(box, {0.5F, 0.5F, 0.5F, 1}), 0);     // has no height
  EXPECT_EQ(overlap(box, {0.8F, 0.8F, 0.2F, 0.2F}), 0);  // swapped edges
  EXPECT_EQ(overlap(Corners{}, Corners{}), 0);
}

TEST(BoxCode, HasTheScalesOfFasterRcnn) {
  const Corners anchor{0.25F, 0.25F, 0.75F, 0.75F};
  const BoxCode code = encode({0.5F, 0.25F, 0.75F, 1.25F}, anchor);
  EXPECT_NEAR(code[0], 10 * 0.125 / 0.5, 1e-5);
  EXPECT_NEAR(code[1], 10 * 0.25 / 0.5, 1e-5);
  EXPECT_NEAR(code[2], 5 * std::log(0.5), 1e-5);
  EXPECT_NEAR(code[3], 5 * std::log(2), 1e-5);
  EXPECT_EQ(encode(anchor, anchor), (BoxCode{0, 0, 0, 0}));
}

TEST(BoxCode, DecodingGivesTheBoxBack) {
  const Corners box{0.1F, 0.2F, 0.35F, 0.9F};
  for (const Corners& anchor : make_anchors({.grids = {3, 1}}))
    expect_near(decode(encode(box, anchor), anchor), box, 2e-6F);
}

TEST(BoxCode, OfABoxWithoutAreaIsFinite) {
  for (const float number : encode({0.3F, 0.3F, 0.3F, 0.3F}, {0, 0, 1, 1}))
    EXPECT_TRUE(std::isfinite(number));
  EXPECT_NEAR(encode({0.3F, 0.3F, 0.3F, 0.3F}, {0, 0, 1, 1})[2], 5 * std::log(1e-8), 1e-3);
}

}  // namespace anchors_test
