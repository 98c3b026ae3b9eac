// Small sets whose numbers can be worked out by hand. tests/oracles/average_precision.py compares
// with pycocotools.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/vision/average_precision.h>

#include <algorithm>
#include <limits>

namespace average_precision_test {

using namespace lockstep;
using namespace lockstep::vision;

constexpr double kRounding = 1e-12;  // of means of up to 1010 numbers of at most 1

/// Boxes of 40 x 40 that do not touch.
Box box_at(int place) { return {50.0 * place, 10, 40, 40}; }

LabelledBox thing(int place, int label = 0) {
  return {.box = box_at(place), .label = label, .area = 1600};
}

Detection found(int place, double score, int label = 0) { return {box_at(place), label, score}; }

/// Two things; the second of three detections is wrong.
JudgedPicture two_of_three() {
  return {.id = 1,
          .truth = {thing(0), thing(1)},
          .found = {found(0, 0.9), found(7, 0.8), found(1, 0.7)}};
}

TEST(AveragePrecision, IsOneWhereAllIsFoundAndNothingElse) {
  const AveragePrecision result = average_precision(
      {{.id = 3, .truth = {thing(0), thing(1, 1)}, .found = {found(0, 0.5), found(1, 0.1, 1)}}}, 2);
  for (const std::size_t number : {0, 1, 2, 4, 6, 7, 8, 10})
    EXPECT_NEAR(result.coco[number], 1, kRounding) << kCocoNumbers[number];
  for (const std::size_t number : {3, 5, 9, 11})
    EXPECT_EQ(result.coco[number], -1) << kCocoNumbers[number];
  EXPECT_NEAR(result.voc2007, 1, kRounding);
  EXPECT_NEAR(result.voc2010, 1, kRounding);
  EXPECT_EQ(result.pictures, 1);
}

TEST(AveragePrecision, IsTheMeanOfTheBestPrecisionsFromEachRecallOn) {
  const AveragePrecision result = average_precision({two_of_three()}, 1);
  // Precision is 1 up to a recall of 1/2, and 2/3 up to 1.
  EXPECT_NEAR(result.coco[1], (51 + 50 * 2.0 / 3) / 101, kRounding);
  EXPECT_NEAR(result.voc2007, (6 + 5 * 2.0 / 3) / 11, kRounding);
  EXPECT_NEAR(result.voc2010, (1 + 2.0 / 3) / 2, kRounding);
  EXPECT_NEAR(result.coco[6], 0.5, kRounding) << "AR1: one detection";
  EXPECT_NEAR(result.coco[7], 1, kRounding) << "AR10";
  const ClassPrecision& one = result.classes.at(0);
  EXPECT_EQ(one.curve.recall, std::vector<double>({0.5, 0.5, 1}));
  EXPECT_EQ(one.curve.precision, std::vector<double>({1, 0.5, 2.0 / 3}));
  EXPECT_EQ(one.curve.score, std::vector<double>({0.9, 0.8, 0.7}));
  EXPECT_EQ(one.boxes, 2);
  EXPECT_EQ(one.pictures, 1);
}

TEST(AveragePrecision, DoesNotDependOnTheOrderOfPictures) {
  std::vector<JudgedPicture> pictures;
  for (int i = 0; i < 20; ++i)
    pictures.push_back({.id = i,
                        .truth = {thing(i % 3), thing(4, 1)},
                        .found = {found(i % 4, 0.5), found(4, 0.1 * (i % 5), i % 2)}});
  const AveragePrecision sorted = average_precision(pictures, 2);
  std::ranges::rotate(pictures, pictures.begin() + 7);
  std::ranges::reverse(pictures.begin(), pictures.begin() + 9);
  const AveragePrecision mixed = average_precision(pictures, 2);
  EXPECT_EQ(mixed.coco, sorted.coco);
  EXPECT_EQ(mixed.voc2007, sorted.voc2007);
  EXPECT_EQ(mixed.voc2010, sorted.voc2010);
  EXPECT_EQ(mixed.classes[1].curve.precision, sorted.classes[1].curve.precision);
}

TEST(AveragePrecision, AThingIsFoundOnce) {
  const AveragePrecision result = average_precision(
      {{.id = 1, .truth = {thing(0)}, .found = {found(0, 0.9), found(0, 0.8)}}}, 1);
  EXPECT_EQ(result.classes[0].curve.precision, std::vector<double>({1, 0.5}));
}

TEST(AveragePrecision, CrowdsAreNotToBeFoundAndNotWrong) {
  LabelledBox crowd = {.box = {0, 0, 400, 400}, .crowd = true, .area = 160000};
  const AveragePrecision result =
      average_precision({{.id = 1,
                          .truth = {thing(20), crowd},
                          .found = {found(0, 0.9), found(1, 0.9), found(20, 0.5)}}},
                        1);
  EXPECT_NEAR(result.coco[0], 1, kRounding);
  EXPECT_EQ(result.classes[0].boxes, 1);
  EXPECT_EQ(result.classes[0].curve.recall, std::vector<double>({1}));
}

TEST(AveragePrecision, DifficultThingsCountForCocoButNotForVoc) {
  JudgedPicture picture = two_of_three();
  picture.truth[1].difficult = true;
  const AveragePrecision result = average_precision({picture}, 1);
  EXPECT_NEAR(result.coco[1], (51 + 50 * 2.0 / 3) / 101, kRounding);
  EXPECT_NEAR(result.voc2010, 1, kRounding);
  picture.truth[0].difficult = true;
  EXPECT_EQ(average_precision({picture}, 1).voc2010, -1);
}

TEST(AveragePrecision, HalfAnOverlapIsEnoughForCocoButNotForVoc) {
  const Detection half = {{0, 10, 40, 20}, 0, 0.9};
  const AveragePrecision result =
      average_precision({{.id = 1, .truth = {thing(0)}, .found = {half}}}, 1);
  EXPECT_NEAR(result.coco[1], 1, kRounding);
  EXPECT_NEAR(result.coco[0], 0.1, kRounding);
  EXPECT_EQ(result.voc2010, 0);
}

TEST(AveragePrecision, ClassesWithoutBoxesAreLeftOutAndThoseWithoutDetectionsAreZero) {
  const AveragePrecision result = average_precision(
      {{.id = 1, .truth = {thing(0), thing(1, 2)}, .found = {found(0, 0.9), found(2, 0.9, 1)}}}, 3);
  EXPECT_NEAR(result.coco[0], 0.5, kRounding);
  EXPECT_NEAR(result.voc2010, 0.5, kRounding);
  EXPECT_EQ(result.classes[1].ap, -1);
  EXPECT_EQ(result.classes[1].voc2007, -1);
  EXPECT_EQ(result.classes[2].ap, 0);
  EXPECT_EQ(result.classes[2].ar100, 0);
  for (const double number : average_precision({}, 3).coco) EXPECT_EQ(number, -1);
  EXPECT_EQ(average_precision({}, 0).voc2007, -1);
}

TEST(AveragePrecision, TheAreaOfAThingIsWhatTheDataSetSays) {
  JudgedPicture picture = two_of_three();
  picture.truth[0].area = 32 * 32;  // small, and medium as well
  picture.truth[1].area = 96 * 96 + 1;
  const AveragePrecision result = average_precision({picture}, 1);
  EXPECT_NEAR(result.coco[3], 1, kRounding);
  // The wrong detection, of 1600 pixels, counts as medium, but scores lower.
  EXPECT_NEAR(result.coco[4], 1, kRounding);
  EXPECT_NEAR(result.coco[5], 1, kRounding);
}

TEST(AveragePrecision, CocoLooksAtAHundredDetectionsOfAPictureAndVocAtAll) {
  JudgedPicture picture = {.id = 1, .truth = {thing(0)}};
  for (int i = 0; i < 100; ++i) picture.found.push_back(found(7, 0.9));
  picture.found.push_back(found(0, 0.8));
  const AveragePrecision result = average_precision({picture}, 1);
  EXPECT_EQ(result.coco[1], 0);
  EXPECT_NEAR(result.voc2010, 1.0 / 101, kRounding);
  EXPECT_EQ(result.classes[0].curve.score.size(), 100U);
}

TEST(AveragePrecision, EqualScoresAreTakenTogetherForTheBestOne) {
  const AveragePrecision result = average_precision(
      {{.id = 1,
        .truth = {thing(0), thing(1), thing(2)},
        .found = {found(0, 0.5), found(7, 0.5), found(8, 0.5), found(1, 0.4), found(9, 0.1)}}},
      1);
  // Of the first alone precision would be 1, but its score takes three.
  EXPECT_NEAR(result.classes[0].precision, 2.0 / 4, kRounding);
  EXPECT_NEAR(result.classes[0].recall, 2.0 / 3, kRounding);
  EXPECT_EQ(result.classes[0].best_score, 0.4);
}

TEST(AveragePrecision, WhatIsNotANumberIsWrongAndLast) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  JudgedPicture picture = two_of_three();
  picture.found.insert(picture.found.begin(), found(0, kNan));
  picture.found.push_back({{kNan, 10, 40, 40}, 0, kNan});
  picture.found.push_back({{kNan, kNan, kNan, kNan}, 0, 0.1});
  const AveragePrecision result = average_precision({picture}, 1);
  EXPECT_NEAR(result.coco[1], (51 + 50 * 2.0 / 3) / 101, kRounding);
  EXPECT_NEAR(result.voc2010, (1 + 2.0 / 3) / 2, kRounding);
}

TEST(AveragePrecision, RefusesAPictureTwiceAndALabelThatIsNone) {
  EXPECT_THROW(average_precision({{.id = 4}, {.id = 2}, {.id = 4}}, 1), std::logic_error);
  EXPECT_THROW(average_precision({two_of_three()}, 0), std::logic_error);
  EXPECT_THROW(average_precision({{.id = 1, .found = {found(0, 0.5, -1)}}}, 1), std::logic_error);
  EXPECT_THROW(average_precision({}, -1), std::logic_error);
}

TEST(PrecisionTable, HasARowForAllAndOneAClassThenEveryNumber) {
  const AveragePrecision result = average_precision(
      {two_of_three(), {.id = 2, .truth = {thing(0, 1)}, .found = {found(0, 0.4, 1)}}, {.id = 5}},
      3);
  EXPECT_EQ(precision_table(result, {"caf\u00e9", "a|b", "longer\nname"}),
            R"(| class       | pictures | boxes |     P |     R |  AP50 |    AP |
| ----------- | -------: | ----: | ----: | ----: | ----: | ----: |
| all         |        3 |     3 | 0.833 | 1.000 | 0.917 | 0.917 |
| café        |        1 |     2 | 0.667 | 1.000 | 0.835 | 0.835 |
| a\|b        |        1 |     1 | 1.000 | 1.000 | 1.000 | 1.000 |
| longer name |        0 |     0 |     - |     - |     - |     - |

| number   | overlap   | area   | detections | value |
| -------- | --------- | ------ | ---------: | ----: |
| AP       | 0.50:0.95 | all    |        100 | 0.917 |
| AP50     | 0.50      | all    |        100 | 0.917 |
| AP75     | 0.75      | all    |        100 | 0.917 |
| APs      | 0.50:0.95 | small  |        100 |     - |
| APm      | 0.50:0.95 | medium |        100 | 0.917 |
| APl      | 0.50:0.95 | large  |        100 |     - |
| AR1      | 0.50:0.95 | all    |          1 | 0.750 |
| AR10     | 0.50:0.95 | all    |         10 | 1.000 |
| AR100    | 0.50:0.95 | all    |        100 | 1.000 |
| ARs      | 0.50:0.95 | small  |        100 |     - |
| ARm      | 0.50:0.95 | medium |        100 | 1.000 |
| ARl      | 0.50:0.95 | large  |        100 |     - |
| VOC 2007 | 0.50      | all    |        all | 0.924 |
| VOC 2010 | 0.50      | all    |        all | 0.917 |
)");
}

TEST(PrecisionTable, NumbersClassesWithoutNamesAndRefusesAnotherNumberOfThem) {
  const AveragePrecision result = average_precision({two_of_three()}, 2);
  EXPECT_NE(precision_table(result, {}).find("\n| 1     |"), std::string::npos);
  EXPECT_THROW(precision_table(result, {"a"}), ConfigError);
}

}  // namespace average_precision_test
