// The picture of a model's attention: dark where it looked, words that fit.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/text/attention_picture.h>

#include <cmath>

#include "drawing/canvas.h"

namespace attention_picture_test {

using namespace lockstep;
using namespace lockstep::text;
using namespace lockstep::drawing;
using Pieces = std::vector<std::string>;

constexpr int kCell = 20, kMargin = 16;

/// The middle of a cell; a matrix of 20 or more columns is at the lower right, inside a margin.
Colour cell_colour(const Image& image, const torch::Tensor& attention, int row, int column) {
  const int x = image.width - kMargin - (static_cast<int>(attention.size(1)) - column) * kCell;
  const int y = image.height - kMargin - (static_cast<int>(attention.size(0)) - row) * kCell;
  const int place = (y + kCell / 2) * image.width + x + kCell / 2;
  const auto* at = &image.pixels[static_cast<std::size_t>(3 * place)];
  return {at[0], at[1], at[2]};
}

std::int64_t dark_pixels(const Image& image) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) count += image.pixels[i + 2] < 60;
  return count;
}

Pieces numbered(std::int64_t count) {
  Pieces result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back("_piece" + std::to_string(i));
  return result;
}

Image picture(const torch::Tensor& attention) {
  return attention_picture(attention, numbered(attention.size(1)), numbered(attention.size(0)));
}

TEST(AttentionPicture, MoreAttentionIsDarkerAndNoneIsWhite) {
  torch::Tensor attention = torch::zeros({20, 24});
  for (int i = 0; i < 20; ++i) attention[i][i + 2] = 0.05 * (i + 1);
  const Image image = picture(attention);
  int last = 255;
  for (int row = 0; row < 20; ++row)
    for (int column = 0; column < 24; ++column) {
      const Colour colour = cell_colour(image, attention, row, column);
      if (column != row + 2) {
        EXPECT_EQ(colour, Colour({255, 255, 255})) << row << ' ' << column;
      } else {
        EXPECT_LT(colour[0], last) << row;
        last = colour[0];
      }
    }
  EXPECT_LT(last, 32);
}

TEST(AttentionPicture, ItFitsOnePieceAndALongSource) {
  for (const auto& [target, source] :
       std::vector<std::pair<int, int>>{{1, 1}, {1, 30}, {30, 1}, {64, 64}, {65, 2}, {3, 3000}}) {
    const Image image = picture(torch::full({target, source}, 0.5));
    EXPECT_LE(image.width, 3100);
    EXPECT_LE(image.height, 1900);
    EXPECT_GE(image.width, source);
    EXPECT_EQ(image.pixels.size(), 3U * static_cast<unsigned>(image.width * image.height));
  }
}

TEST(AttentionPicture, LongPiecesMakeRoomUpToALimit) {
  const torch::Tensor attention = torch::zeros({20, 20});
  const auto with = [&](const std::string& piece) {
    Pieces source = numbered(20);
    source[3] = piece;
    return attention_picture(attention, source, numbered(20));
  };
  const Image usual = with("_a"), longer = with("internation"), cut = with(std::string(500, 'x'));
  EXPECT_EQ(usual.width, cut.width);
  EXPECT_LT(usual.height, longer.height);
  EXPECT_LT(longer.height, cut.height);
  EXPECT_LT(cut.height, 2 * usual.height);
}

TEST(AttentionPicture, TheMarkOfAWordsBeginningIsAnUnderscore) {
  const torch::Tensor attention = torch::zeros({1, 2});
  const Image marked = attention_picture(attention, {"\u2581le", "a\u2581"}, {"\u2581the"});
  EXPECT_EQ(marked.pixels, attention_picture(attention, {"_le", "a_"}, {"_the"}).pixels);
  EXPECT_NE(marked.pixels, attention_picture(attention, {"_le", "a_"}, {"\u2582the"}).pixels);
}

TEST(AttentionPicture, SourceAndTargetAreNotMixedUp) {
  const torch::Tensor attention = torch::zeros({30, 30});
  const Pieces hashes(30, "#"), blanks(30, " ");
  const Image image = attention_picture(attention, hashes, blanks);
  const Image turned = attention_picture(attention, blanks, hashes);
  EXPECT_EQ(dark_pixels(image), dark_pixels(turned));
  const auto dark_at_the_left = [](Image part) {
    for (std::size_t i = 0; i < part.pixels.size(); ++i)
      if (static_cast<int>(i / 3) % part.width >= part.width - kMargin - 30 * kCell)
        part.pixels[i] = 255;
    return dark_pixels(part);
  };
  EXPECT_EQ(dark_at_the_left(image), 0);
  EXPECT_GT(dark_at_the_left(turned), 0);
}

TEST(AttentionPicture, WhatIsNoNumberOrOutOfRangeIsShownAsTheNearest) {
  const torch::Tensor wild = torch::tensor({{NAN, -3.0F, 1.5F}}), tame = torch::tensor({{0, 0, 1}});
  EXPECT_EQ(picture(wild).pixels, picture(tame).pixels);
}

TEST(AttentionPicture, NamesMustFitTheAttention) {
  const torch::Tensor attention = torch::zeros({2, 3});
  EXPECT_THROW(attention_picture(attention, numbered(2), numbered(3)), ConfigError);
  EXPECT_THROW(attention_picture(attention, numbered(4), numbered(2)), ConfigError);
  EXPECT_THROW(attention_picture(torch::zeros({2, 0}), {}, numbered(2)), ConfigError);
  EXPECT_THROW(attention_picture({}, {}, {}), std::logic_error);
}

}  // namespace attention_picture_test
