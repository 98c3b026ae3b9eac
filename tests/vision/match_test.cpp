// Which anchor belongs to which thing.

#include <gtest/gtest.h>
#include <lockstep/vision/anchors.h>

namespace match_test {

using namespace lockstep::vision;
using Matches = std::vector<int>;

/// A box of the upper left corner, by its right edge: overlaps are easy to see.
Corners strip(float right) { return {0, 0, 1, right}; }

const std::vector<Corners> kAnchors = {
    {0, 0, 0.5F, 0.5F}, {0, 0.5F, 0.5F, 1}, {0.5F, 0, 1, 0.5F}, {0.5F, 0.5F, 1, 1}, {0, 0, 1, 1}};

TEST(Match, WithoutThingsAllIsBackground) { EXPECT_EQ(match(kAnchors, {}), Matches(5, -1)); }

TEST(Match, AnAnchorTakesTheThingThatItOverlapsMost) {
  const std::vector<Corners> things = {strip(0.6F), strip(0.9F)};
  EXPECT_EQ(match({{strip(1), strip(0.7F)}}, things), (Matches{1, 0}));
}

TEST(Match, HalfIsEnoughAndLessIsNot) {
  const std::vector<Corners> anchors = {strip(1), strip(0.99F), strip(1.01F)};
  const std::vector<Corners> things = {strip(0.5F)};
  EXPECT_EQ(match(anchors, things, {.force = false}), (Matches{0, 0, -1}));
}

TEST(Match, AThingThatNoAnchorFitsForcesTheBestOne) {
  const std::vector<Corners> things = {{0.6F, 0.6F, 0.7F, 0.7F}};
  EXPECT_EQ(match(kAnchors, things, {.force = false}), Matches(5, -1));
  EXPECT_EQ(match(kAnchors, things), (Matches{-1, -1, -1, 0, -1}));
}

TEST(Match, OfEqualOverlapsTheLowerNumberCounts) {
  const std::vector<Corners> twice = {kAnchors[1], kAnchors[1]};
  EXPECT_EQ(match(kAnchors, twice), (Matches{-1, 0, -1, -1, -1}));
  const std::vector<Corners> between = {
      {0.25F, 0.25F, 0.75F, 0.75F}};  // the first four overlap alike
  EXPECT_EQ(match(std::span(kAnchors).first(4), between), (Matches{0, -1, -1, -1}));
}

TEST(Match, AForcedAnchorIsTakenFromTheThingThatFitsBetter) {
  // Thing 0 fits the second anchor best of all; thing 1 fits it less, but it is its best.
  const std::vector<Corners> anchors = {strip(0.8F), strip(0.6F)};
  const std::vector<Corners> things = {strip(0.8F), strip(0.3F)};
  EXPECT_EQ(match(anchors, things, {.force = false}), (Matches{0, 0}));
  EXPECT_EQ(match(anchors, things), (Matches{0, 1}));
}

TEST(Match, TwoThingsThatForceOneAnchorLeaveItToTheLower) {
  const std::vector<Corners> things = {{0.6F, 0.6F, 0.7F, 0.7F}, {0.8F, 0.8F, 0.95F, 0.95F}};
  EXPECT_EQ(match(kAnchors, things), (Matches{-1, -1, -1, 0, -1}));
}

TEST(Match, ThingsWithoutAreaAndOutsideAllAnchorsGetNone) {
  const std::vector<Corners> things = {
      {0.2F, 0.2F, 0.2F, 0.4F}, {0.4F, 0.4F, 0.2F, 0.2F}, {2, 2, 3, 3}};
  EXPECT_EQ(match(kAnchors, things), Matches(5, -1));
  EXPECT_EQ(match(kAnchors, things, {.overlap = 0}), Matches(5, -1));
}

TEST(Match, TargetsHaveTheLabelPlusOneAndTheCode) {
  const std::vector<Corners> things = {kAnchors[2], {0.6F, 0.6F, 0.7F, 0.7F}};
  const std::vector<int> labels = {6, 0};
  const Targets targets = make_targets(kAnchors, things, labels);
  EXPECT_EQ(targets.labels, (std::vector<std::int64_t>{0, 0, 7, 1, 0}));
  EXPECT_EQ(targets.codes[0], BoxCode{});
  EXPECT_EQ(targets.codes[2], BoxCode{});  // the anchor is the thing
  EXPECT_EQ(targets.codes[3], encode(things[1], kAnchors[3]));
}

TEST(Match, ThingsAndLabelsOfAnotherNumberAreRefused) {
  EXPECT_THROW(make_targets(kAnchors, kAnchors, {}), std::logic_error);
}

}  // namespace match_test
