// Pictures for people: colours where they belong, and nothing elsewhere.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/vision/box_pictures.h>
#include "drawing/canvas.h"

#include <limits>
#include <set>

namespace box_pictures_test {

using namespace lockstep;
using namespace lockstep::vision;
using drawing::Area;
using drawing::Canvas;
using drawing::Colour;
using drawing::distinct_colour;

constexpr Colour kWhite = {255, 255, 255}, kGround = {10, 20, 30};

Image plain(int width, int height, const Colour& colour = kGround) {
  Canvas canvas(width, height);
  canvas.fill({0, 0, width, height}, colour);
  return std::move(canvas).image();
}

Colour pixel(const Image& image, int x, int y) {
  const auto* at = &image.pixels[static_cast<std::size_t>(3 * (y * image.width + x))];
  return {at[0], at[1], at[2]};
}

bool is_inside(const Area& area, int x, int y) {
  return x >= area.left && x < area.left + area.width && y >= area.top &&
         y < area.top + area.height;
}

/// The least area that holds all pixels of a colour; 0 x 0 if there is none.
Area extent(const Image& image, const Colour& colour) {
  int left = image.width, top = image.height, right = 0, bottom = 0;
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x) {
      if (pixel(image, x, y) != colour) continue;
      left = std::min(left, x), right = std::max(right, x + 1);
      top = std::min(top, y), bottom = std::max(bottom, y + 1);
    }
  if (right == 0) return {0, 0, 0, 0};
  return {left, top, right - left, bottom - top};
}

std::vector<int> sides(const Area& area) { return {area.left, area.top, area.width, area.height}; }

int count(const Image& image, const Colour& colour) {
  int result = 0;
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x) result += pixel(image, x, y) == colour;
  return result;
}

Image with_boxes(int width, int height, const std::vector<DrawnBox>& boxes) {
  Image image = plain(width, height);
  draw_boxes(image, boxes);
  return image;
}

TEST(DrawBoxes, AFrameLiesOnTheEdgeOfItsBoxAndNowhereElse) {
  const Image image = with_boxes(400, 400, {{.box = {50.2, 60.4, 100, 80}, .label = 3}});
  const Area outer = {50, 60, 100, 80}, inner = {52, 62, 96, 76};
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x) {
      const bool framed = is_inside(outer, x, y) && !is_inside(inner, x, y);
      ASSERT_EQ(pixel(image, x, y), framed ? distinct_colour(3) : kGround) << x << ' ' << y;
    }
}

TEST(DrawBoxes, FramesAndLettersGrowWithThePicture) {
  const auto tag_height = [](int side) {
    // On a box that is as high as the picture, the text is inside.
    const Image image = with_boxes(side, side, {{{0, 0, 8, double(side)}, 1, "cat"}});
    return extent(image, kWhite).height;
  };
  EXPECT_EQ(tag_height(64), 7);
  EXPECT_EQ(tag_height(700), 14);
  EXPECT_EQ(tag_height(1400), 28);
  const auto thickness = [](int side) {
    const Image image = with_boxes(side, side, {{.box = {0, 0, double(side), double(side)}}});
    int x = 0;
    while (pixel(image, x, side / 2) != kGround) ++x;
    return x;
  };
  EXPECT_EQ(thickness(32), 1);
  EXPECT_EQ(thickness(300), 2);
  EXPECT_EQ(thickness(1000), 5);
}

TEST(DrawBoxes, ATextIsWhiteOnTheColourOfItsClassAndInsideThePicture) {
  for (const Box& box : {Box{100, 100, 50, 50},
                         {0, 0, 40, 40},
                         {290, 0, 60, 300},
                         {-20, 280, 50, 9},
                         {298, 298, 2, 2},
                         {0, 0, 300, 300}}) {
    const Image image = with_boxes(300, 300, {{box, 2, "a cat 0.87"}});
    const Area text = extent(image, kWhite);
    EXPECT_EQ(text.width, drawing::text_length("a cat 0.87", 1)) << box.left << ' ' << box.top;
    EXPECT_EQ(text.height, 7);
    for (const int y : {text.top - 1, text.top + 7})
      for (int x = text.left - 1; x <= text.left + text.width; ++x)
        EXPECT_EQ(pixel(image, x, y), distinct_colour(2));
  }
}

TEST(DrawBoxes, TextsOfBoxesInOnePlaceDoNotCoverEachOther) {
  const Box box = {100, 100, 90, 90};
  const Image image =
      with_boxes(300, 300, {{box, 0, "cat 0.87"}, {box, 1, "dog 0.21"}, {box, 2, "cow 0.11"}});
  const auto letters = [](const char* text) {
    const Image alone = with_boxes(300, 300, {{{100, 100, 90, 90}, 0, text}});
    return count(alone, kWhite);
  };
  EXPECT_EQ(count(image, kWhite), letters("cat 0.87") + letters("dog 0.21") + letters("cow 0.11"));
  EXPECT_EQ(pixel(image, 189, 150), distinct_colour(0)) << "the first frame is on top";
}

TEST(DrawBoxes, BoxesAreCutToThePicture) {
  const Image image = with_boxes(300, 200, {{.box = {-50, -1e300, 100, 2e300}, .label = 5}});
  EXPECT_EQ(sides(extent(image, distinct_colour(5))), std::vector<int>({0, 0, 50, 200}));
}

TEST(DrawBoxes, WhatIsNoBoxOnThePictureIsNotDrawn) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Image before = plain(100, 80);
  for (const Box& box : {Box{100, 0, 10, 10},
                         {-10, 0, 10, 10},
                         {0, 80, 5, 5},
                         {0, -9, 5, 5},
                         {5, 5, 0, 10},
                         {5, 5, 10, 0},
                         {5, 5, -3, 10},
                         {kNan, 0, 10, 10},
                         {0, kNan, 10, 10},
                         {0, 0, kNan, 10},
                         {0, 0, 10, kNan},
                         {-kInfinity, 0, kInfinity, 10},
                         {1e300, 1e300, 1e300, 1e300}})
    EXPECT_EQ(with_boxes(100, 80, {{box, 1, "cat"}}).pixels, before.pixels)
        << box.left << ' ' << box.top << ' ' << box.width << ' ' << box.height;
  EXPECT_EQ(with_boxes(1, 1, {{{0, 0, 1, 1}, 1, ""}}).pixels[0], distinct_colour(1)[0]);
  Image grey = {1, 1, 1, {0}};
  EXPECT_THROW(draw_boxes(grey, {}), std::logic_error);
}

TEST(DrawBoxes, ClassesHaveAtLeastTwelveColours) {
  std::set<Colour> colours;
  for (int label = -2; label < 100; ++label) colours.insert(distinct_colour(label));
  EXPECT_GE(colours.size(), 12U);
  for (const Colour& colour : colours) {
    // Of W3C's relative luminance, about: white text needs a contrast of 3.
    const double light = 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2];
    EXPECT_LT(light, 150);
  }
}

TEST(Drawn, SaysClassAndScore) {
  const std::vector<DrawnBox> found =
      drawn({{{1, 2, 3, 4}, 1, 0.876}, {{}, 0, 0.2}, {{}, 9, 0.5}}, {"cat", "dog"}, 0.5);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].text, "dog 0.88");
  EXPECT_EQ(found[0].label, 1);
  EXPECT_EQ(found[0].box, Box({1, 2, 3, 4}));
  EXPECT_EQ(found[1].text, "9 0.50");
  const std::vector<DrawnBox> truth = drawn(
      {{.label = 0}, {.label = 1, .crowd = true}, {.label = 1, .difficult = true}}, {"cat", "dog"});
  ASSERT_EQ(truth.size(), 3U);
  EXPECT_EQ(truth[0].text, "cat");
  EXPECT_EQ(truth[1].text, "dog, crowd");
  EXPECT_EQ(truth[2].text, "dog, difficult");
}

TEST(Mosaic, PicturesOfTheSizeOfACellAreNotChanged) {
  Image picture = plain(20, 20);
  for (std::size_t i = 0; i < picture.pixels.size(); ++i)
    picture.pixels[i] = static_cast<std::uint8_t>(i * 7 % 251);
  const Image image = mosaic({plain(20, 20), picture, picture}, 2, 20);
  EXPECT_EQ(image.width, 2 * 20 + 3 * 8);
  EXPECT_EQ(image.height, 2 * 20 + 3 * 8);
  for (int y = 0; y < 20; ++y)
    for (int x = 0; x < 20; ++x) {
      EXPECT_EQ(pixel(image, 36 + x, 8 + y), pixel(picture, x, y));
      EXPECT_EQ(pixel(image, 8 + x, 36 + y), pixel(picture, x, y));
    }
  EXPECT_EQ(sides(extent(image, kGround)), std::vector<int>({8, 8, 20, 20}));
}

TEST(Mosaic, PicturesFitTheirCellsAndKeepTheirShape) {
  const Image image = mosaic({plain(400, 200, {1, 1, 1}), plain(5, 10, {2, 2, 2})}, 2, 100);
  EXPECT_EQ(sides(extent(image, {1, 1, 1})), std::vector<int>({8, 33, 100, 50}));
  EXPECT_EQ(sides(extent(image, {2, 2, 2})), std::vector<int>({141, 8, 50, 100}));
  EXPECT_EQ(count(image, kWhite), image.width * image.height - 2 * 5000);
}

TEST(Mosaic, TitlesAreWrittenAboveTheirColumns) {
  const std::vector<Image> pictures(4, plain(200, 200, {9, 9, 9}));
  const Image image = mosaic(pictures, 2, 200, {"truth", std::string(90, 'x')});
  const Area cells = extent(image, {9, 9, 9}), words = extent(image, {32, 32, 32});
  EXPECT_LE(words.top + words.height, cells.top);
  EXPECT_GE(words.left, cells.left);
  EXPECT_LE(words.left + words.width, cells.left + cells.width);
  EXPECT_GT(words.width, 200) << "over both columns";
  EXPECT_EQ(image.height - mosaic(pictures, 2, 200).height, cells.top - 8);
  EXPECT_THROW(mosaic({}, 2), std::logic_error);
  EXPECT_THROW(mosaic(pictures, 0), std::logic_error);
}

AveragePrecision result_of(int classes, double precision) {
  AveragePrecision result;
  for (int i = 0; i < classes; ++i)
    result.classes.push_back({.boxes = 10 + i,
                              .ap50 = precision / 2,
                              .curve = {{0.25, 0.5}, {precision, precision}, {0.9, 0.8}}});
  return result;
}

TEST(PrecisionRecallPicture, ACurveIsAsHighAsItsPrecisionUpToItsRecall) {
  const auto curve = [](double precision) {
    Image image = precision_recall_picture(result_of(1, precision), {"cat"});
    Canvas canvas(std::move(image));
    canvas.fill({690, 0, 1000, 1000}, kWhite);  // the legend
    return extent(std::move(canvas).image(), distinct_colour(0));
  };
  const Area high = curve(1), low = curve(0.5);
  // Half of 600 pixels wide; down to the axis.
  EXPECT_NEAR(high.width, 300, 3);
  EXPECT_NEAR(high.height, 600, 3);
  EXPECT_NEAR(low.width, 300, 3);
  EXPECT_NEAR(low.height, 300, 3);
  EXPECT_EQ(high.left, low.left);
  EXPECT_EQ(high.top + high.height, low.top + low.height);
}

TEST(PrecisionRecallPicture, ShowsTheTwelveClassesWithMostBoxesAndTheMean) {
  const Image image = precision_recall_picture(result_of(14, 0.7), {});
  const Image legend = [&] {
    Canvas canvas{Image(image)};
    canvas.fill({0, 0, 690, 1000}, kWhite);
    return std::move(canvas).image();
  }();
  for (int label = 0; label < 14; ++label)
    EXPECT_EQ(count(legend, distinct_colour(label)) > 0, label >= 2) << label;
  EXPECT_GT(count(legend, {0, 0, 0}), 0);
  EXPECT_EQ(count(precision_recall_picture(result_of(1, 0.7), {"cat"}), {0, 0, 0}), 0);
  EXPECT_GT(extent(image, {0, 0, 0}).width, 300) << "the curve of the mean";
}

TEST(PrecisionRecallPicture, NothingToBeFoundIsAPictureToo) {
  const Image image = precision_recall_picture({}, {});
  EXPECT_EQ(image.pixels.size(), static_cast<std::size_t>(image.width * image.height * 3));
  for (int label = 0; label < 16; ++label) EXPECT_EQ(count(image, distinct_colour(label)), 0);
  EXPECT_THROW(precision_recall_picture(result_of(2, 1), {"cat"}), ConfigError);
}

/// The matrix ends at the lower margin and begins at `left`; a corner of each cell is free of text.
Colour cell_colour(const Image& image, int classes, int row, int column, int left) {
  return pixel(image, left + column * 58 + 4, image.height - 16 - 1 - (classes - row) * 58 + 4);
}

TEST(DetectionConfusionPicture, RightIsBlueWrongIsRedAndNeverIsWhite) {
  const Image image =
      detection_confusion_picture({{8, 2, 0}, {0, 10, 0}, {0, 3, 0}}, {"cat", "dog"}, "");
  // Names of ten letters in large type, as in the pictures of classifiers.
  const int left = 16 + 24 + drawing::text_length("background", 2) + 12;
  const auto blue = [&](int row, int column) {
    const Colour colour = cell_colour(image, 3, row, column, left);
    return colour[2] > colour[0] + 30;
  };
  const auto red = [&](int row, int column) {
    const Colour colour = cell_colour(image, 3, row, column, left);
    return colour[0] > colour[2] + 30;
  };
  EXPECT_TRUE(blue(0, 0) && blue(1, 1));
  EXPECT_TRUE(red(0, 1) && red(2, 1));
  for (const auto& [row, column] : {std::pair{0, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 2}})
    EXPECT_EQ(cell_colour(image, 3, row, column, left), kWhite) << row << ' ' << column;
}

TEST(DetectionConfusionPicture, NamesMustBeOneAClassWithoutTheBackground) {
  EXPECT_THROW(detection_confusion_picture({{1, 0}, {0, 0}}, {"a", "b"}, ""), ConfigError);
  EXPECT_THROW(detection_confusion_picture({{1, 0}, {0}}, {"a"}, ""), std::logic_error);
  EXPECT_THROW(detection_confusion_picture({}, {}, ""), std::logic_error);
}

TEST(Canvas, AFrameThatIsTooSmallIsFilledAndExtremeAreasAreCut) {
  constexpr int kMost = std::numeric_limits<int>::max();
  Canvas canvas(10, 10);
  canvas.frame({2, 2, 3, 3}, 5, {1, 1, 1});
  canvas.fill({8, 8, kMost, kMost}, {2, 2, 2});
  canvas.place(-1, 9, {2, 2, 3, {1, 1, 1, 3, 3, 3, 5, 5, 5, 7, 7, 7}});
  const Image image = std::move(canvas).image();
  EXPECT_EQ(count(image, {1, 1, 1}), 9);
  EXPECT_EQ(count(image, {2, 2, 2}), 4);
  EXPECT_EQ(pixel(image, 0, 9), Colour({3, 3, 3}));
}

}  // namespace box_pictures_test
