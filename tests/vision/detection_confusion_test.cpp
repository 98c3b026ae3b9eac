#include <gtest/gtest.h>
#include <lockstep/vision/average_precision.h>

#include <limits>

namespace detection_confusion_test {

using namespace lockstep::vision;
using Counts = std::vector<std::vector<std::int64_t>>;

LabelledBox thing(double left, int label) { return {.box = {left, 0, 10, 10}, .label = label}; }

Detection found(double left, int label, double score = 0.9) {
  return {{left, 0, 10, 10}, label, score};
}

Counts confusion(const JudgedPicture& picture, int classes = 2) {
  return detection_confusion({picture}, classes, 0.5, 0.5);
}

TEST(DetectionConfusion, CountsPairsMissesAndInventions) {
  EXPECT_EQ(confusion({.truth = {thing(0, 0), thing(100, 0), thing(200, 1)},
                       .found = {found(1, 0), found(101, 1), found(300, 1)}}),
            Counts({{1, 1, 0}, {0, 0, 1}, {0, 1, 0}}));
}

TEST(DetectionConfusion, LeavesOutLowScoresAndSmallOverlaps) {
  EXPECT_EQ(confusion({.truth = {thing(0, 0), thing(100, 1)},
                       .found = {found(0, 0, 0.49), found(104, 1, 0.5)}}),
            Counts({{0, 0, 1}, {0, 0, 1}, {0, 1, 0}}));
}

TEST(DetectionConfusion, BestOverlapsArePairedFirst) {
  // The first detection lies on both, but the second lies on the first thing better.
  EXPECT_EQ(confusion({.truth = {thing(0, 0), thing(5, 1)}, .found = {found(2, 0), found(0, 1)}}),
            Counts({{0, 1, 0}, {1, 0, 0}, {0, 0, 0}}));
}

TEST(DetectionConfusion, OfEqualOverlapsTheBetterScoreIsPaired) {
  EXPECT_EQ(confusion({.truth = {thing(0, 0)}, .found = {found(0, 1, 0.6), found(0, 0, 0.8)}}),
            Counts({{1, 0, 0}, {0, 0, 0}, {0, 1, 0}}));
}

TEST(DetectionConfusion, CrowdsAndDifficultThingsAreLeftOutWithWhatIsOnThem) {
  LabelledBox crowd = {.box = {0, 0, 1000, 10}, .label = 0, .crowd = true};
  LabelledBox difficult = thing(2000, 1);
  difficult.difficult = true;
  EXPECT_EQ(confusion({.truth = {crowd, difficult, thing(500, 0)},
                       .found = {found(7, 0), found(2001, 0), found(500, 0), found(3000, 0)}}),
            Counts({{1, 0, 0}, {0, 0, 0}, {1, 0, 0}}));
}

TEST(DetectionConfusion, SumsOverPictures) {
  const JudgedPicture picture = {.truth = {thing(0, 0)}, .found = {found(0, 0)}};
  EXPECT_EQ(detection_confusion({picture, picture, {}}, 1, 0.5, 0.5), Counts({{2, 0}, {0, 0}}));
  EXPECT_EQ(detection_confusion({}, 0, 0.5, 0.5), Counts({{0}}));
}

TEST(DetectionConfusion, WhatIsNotANumberIsNoPair) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(confusion({.truth = {thing(0, 0)}, .found = {found(kNan, 0), found(0, 0, kNan)}}),
            Counts({{0, 0, 1}, {0, 0, 0}, {1, 0, 0}}));
}

TEST(DetectionConfusion, RefusesALabelThatIsNone) {
  EXPECT_THROW(confusion({.truth = {thing(0, 2)}}), std::logic_error);
  EXPECT_THROW(confusion({.found = {found(0, -1)}}), std::logic_error);
}

}  // namespace detection_confusion_test
