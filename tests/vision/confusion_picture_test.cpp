// The picture of a confusion matrix: colours where they belong, words that fit.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/vision/classify.h>
#include "drawing/canvas.h"

#include <algorithm>
#include <set>

namespace confusion_picture_test {

using namespace lockstep;
using namespace lockstep::vision;
using namespace lockstep::drawing;

Classification result_of(const torch::Tensor& confusion) {
  const double rows = confusion.sum().item<double>();
  return {.metrics = {{"accuracy", {confusion.trace().item<double>(), rows}}},
          .confusion = confusion};
}

Colour pixel(const Image& image, int x, int y) {
  const auto* at = &image.pixels[static_cast<std::size_t>(3 * (y * image.width + x))];
  return {at[0], at[1], at[2]};
}

bool is_blue(const Colour& colour) { return colour[2] > colour[0] + 30; }
bool is_red(const Colour& colour) { return colour[0] > colour[2] + 5; }

/// Ink that is neither white, nor blue or red.
std::int64_t dark_pixels(const Image& image) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < image.pixels.size(); i += 3)
    count += image.pixels[i] < 60 && image.pixels[i + 2] < 60;
  return count;
}

/// The matrix is the square at the lower right, inside a margin; a corner of each cell is free of
/// text.
Colour cell_colour(const Image& image, int classes, int cell, int margin, int row, int column) {
  return pixel(image, image.width - margin - 1 - (classes - column) * cell + 4,
               image.height - margin - 1 - (classes - row) * cell + 4);
}

TEST(ConfusionPicture, RightIsBlueWrongIsRedAndNeverIsWhite) {
  torch::Tensor confusion = torch::eye(10, torch::kInt64) * 90;
  confusion[2][7] = 10;
  const Image image = confusion_picture(result_of(confusion));
  for (int row = 0; row < 10; ++row)
    for (int column = 0; column < 10; ++column) {
      const Colour colour = cell_colour(image, 10, 58, 16, row, column);
      if (row == column)
        EXPECT_TRUE(is_blue(colour)) << row;
      else if (row == 2 && column == 7)
        EXPECT_TRUE(is_red(colour));
      else
        EXPECT_EQ(colour, Colour({255, 255, 255})) << row << ' ' << column;
    }
}

TEST(ConfusionPicture, NumbersAreWrittenForAtMost20Classes) {
  // A tenth wrong: pale cells, with dark text on them.
  const auto uneven = [](std::int64_t classes) {
    const auto unit = torch::eye(classes, torch::kInt64);
    return result_of(90 * unit + 10 * unit.roll(1, 1));
  };
  const auto numberless = [](std::int64_t classes) {
    return result_of(90 * torch::eye(classes, torch::kInt64));
  };
  EXPECT_GT(dark_pixels(confusion_picture(uneven(20))),
            dark_pixels(confusion_picture(numberless(20))) + 20 * 50);
  const auto no_names = [](std::int64_t classes) {
    return std::vector<std::string>(static_cast<std::size_t>(classes), " ");
  };
  // Left is the title: "accuracy 90.00 % of 2100 rows".
  EXPECT_LT(dark_pixels(confusion_picture(uneven(21), no_names(21))), 29 * 25);
}

TEST(ConfusionPicture, LongNamesMakeRoomForThemselvesUpToALimit) {
  const Classification result = result_of(torch::eye(3, torch::kInt64));
  const auto width = [&](const std::string& name) {
    return confusion_picture(result, {name, "b", "c"}).width;
  };
  EXPECT_LT(width("a sleeping"), width("a sleeping cat"));
  EXPECT_EQ(width(std::string(17, 'x')), width(std::string(1000, 'x')));
  const auto cats = [](int count) {
    std::string name;
    while (count-- > 0) name += "\u732b";
    return name;
  };
  EXPECT_LT(width(cats(8)), width(cats(16))) << "letters of Unifont";
  EXPECT_EQ(width(cats(17)), width(cats(99)));
}

TEST(ConfusionPicture, ManyClassesStaySmallEnoughToLookAt) {
  for (const int classes : {21, 100, 101, 1000}) {
    const Image image = confusion_picture(result_of(torch::eye(classes, torch::kInt64)));
    EXPECT_LE(image.width, 1100) << classes;
    EXPECT_LE(image.height, 1200) << classes;
    EXPECT_EQ(image.pixels.size(), static_cast<std::size_t>(image.width * image.height * 3));
  }
}

TEST(ConfusionPicture, ALabelWithoutRowsIsAnEmptyRow) {
  torch::Tensor confusion = torch::eye(3, torch::kInt64);
  confusion[1][1] = 0;
  const Image image = confusion_picture(result_of(confusion));
  EXPECT_EQ(cell_colour(image, 3, 58, 16, 1, 1), Colour({255, 255, 255}));
}

TEST(ConfusionPicture, NamesMustBeOneAClass) {
  EXPECT_THROW(confusion_picture(result_of(torch::eye(3, torch::kInt64)), {"a", "b"}), ConfigError);
  EXPECT_THROW(confusion_picture({}), std::logic_error);
}

TEST(Canvas, EveryPrintableLetterIsDrawnAndNoTwoAreAlike) {
  std::set<std::string> drawn;
  for (char letter = ' '; letter < 0x7f; ++letter) {
    Canvas canvas(5, 8);
    canvas.write(0, 0, std::string(1, letter));
    const Image image = std::move(canvas).image();
    drawn.emplace(image.pixels.begin(), image.pixels.end());
  }
  EXPECT_EQ(drawn.size(), 95U);
}

TEST(Canvas, TurnedTextIsTheSameTextTurned) {
  Canvas straight(22, 16), turned(16, 22);
  straight.write(0, 0, "Ry", {.scale = 2});
  turned.write(0, 22, "Ry", {.scale = 2, .upwards = true});
  const Image a = std::move(straight).image(), b = std::move(turned).image();
  for (int y = 0; y < a.height; ++y)
    for (int x = 0; x < a.width; ++x) EXPECT_EQ(pixel(a, x, y), pixel(b, y, 21 - x));
}

TEST(Canvas, WhatIsOutsideIsCutOff) {
  Canvas canvas(4, 3);
  canvas.fill({-5, -5, 100, 7}, {1, 2, 3});
  canvas.write(-3, 1, "W");
  canvas.write(2, -200, "W", {.scale = 50});
  const Image image = std::move(canvas).image();
  EXPECT_EQ(pixel(image, 0, 0), Colour({1, 2, 3}));
  EXPECT_EQ(image.pixels.size(), 36U);
}

}  // namespace confusion_picture_test
