// Suppression, mining and detections, also against plain loops.

#include <gtest/gtest.h>
#include <lockstep/vision/anchors.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace suppress_test {

using namespace lockstep::vision;
using Numbers = std::vector<int>;

constexpr int kAll = 1'000'000;
const float kNan = std::numeric_limits<float>::quiet_NaN();

Corners strip(float right) { return {0, 0, 1, right}; }

struct Boxes {
  std::vector<Corners> boxes;
  std::vector<float> scores;
};

/// With equal boxes and scores, and boxes without area.
Boxes random_boxes(unsigned seed, std::size_t count) {
  std::mt19937 random(seed);
  const auto number = [&](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  Boxes result;
  for (std::size_t i = 0; i < count; ++i) {
    const auto edge = [&] { return static_cast<float>(number(60)) / 50; };
    const Corners box{edge(), edge(), edge(), edge()};
    const bool again = i > 0 && number(4) == 0;
    result.boxes.push_back(again ? result.boxes[random() % i] : box);
    result.scores.push_back(static_cast<float>(number(40)) / 8 - 1);
  }
  return result;
}

Corners sorted(Corners box) {
  if (box.bottom < box.top) std::swap(box.top, box.bottom);
  if (box.right < box.left) std::swap(box.left, box.right);
  return box;
}

Numbers plain_suppress(const Boxes& all, double most_overlap, int most) {
  Numbers order(all.boxes.size()), kept;
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](int i) { return all.scores[static_cast<std::size_t>(i)]; };
  const auto box = [&](int i) { return sorted(all.boxes[static_cast<std::size_t>(i)]); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return score(a) > score(b); });
  for (const int i : order)
    if (static_cast<int>(kept.size()) < most && std::none_of(kept.begin(), kept.end(), [&](int k) {
          return overlap(box(i), box(k)) > most_overlap;
        }))
      kept.push_back(i);
  return kept;
}

TEST(Suppress, EqualsPlainLoops) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Boxes all = random_boxes(seed, seed * 5);
    for (const double most_overlap : {0., 0.3, 0.6, 0.99, 1.})
      for (const int most : {0, 1, 10, kAll})
        EXPECT_EQ(suppress(all.boxes, all.scores, most_overlap, most),
                  plain_suppress(all, most_overlap, most))
            << seed << ' ' << most_overlap << ' ' << most;
  }
}

TEST(Suppress, OfEqualScoresTheLowerNumberStays) {
  EXPECT_EQ(suppress({{strip(1), strip(1), strip(0.1F)}}, {{0.F, -0.F, 0.F}}, 0.5, kAll),
            (Numbers{0, 2}));
}

TEST(Suppress, AnOverlapAtTheLimitStays) {
  EXPECT_EQ(suppress({{strip(1), strip(0.5F)}}, {{2.F, 1.F}}, 0.5, kAll), (Numbers{0, 1}));
  EXPECT_EQ(suppress({{strip(1), strip(0.51F)}}, {{2.F, 1.F}}, 0.5, kAll), (Numbers{0}));
}

TEST(Suppress, WhatIsNotFiniteOverlapsNothingAndComesFirstByScore) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<Corners> boxes = {strip(1), {kNan, 0, 1, 1}, {-inf, -inf, inf, inf}, strip(1)};
  EXPECT_EQ(suppress(boxes, {{1.F, 2.F, -inf, kNan}}, 0.5, kAll), (Numbers{3, 1, 2}));
}

const std::vector<Corners> kApart = {{0, 0, 1, 1}, {0, 2, 1, 3}, {0, 4, 1, 5},
                                     {0, 6, 1, 7}, {0, 8, 1, 9}, {0, 10, 1, 11}};
using Flags = std::vector<std::uint8_t>;

TEST(Mine, AllPositivesAndTheHardestThreeTimesAsManyNegativesCount) {
  EXPECT_EQ(mine({{0.1F, 5, 4, 3, 2, 1}}, kApart, {{7, 0, 0, 0, 0, 0}}, {}),
            (Flags{1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(
      mine({{0.1F, 5, 4, 3, 2, 1}}, kApart, {{7, 0, 0, 0, 0, 0}}, {.negatives_per_positive = 1.9}),
      (Flags{1, 1, 0, 0, 0, 0}));
}

TEST(Mine, WithoutPositivesTheLeastNumberOfNegativesCounts) {
  const std::vector<float> losses = {0, 5, 4, 3, 2, 1};
  const std::vector<std::int64_t> labels(6, 0);
  EXPECT_EQ(mine(losses, kApart, labels, {}), Flags(6, 0));
  EXPECT_EQ(mine(losses, kApart, labels, {.min_negatives = 2}), (Flags{0, 1, 1, 0, 0, 0}));
  EXPECT_EQ(mine(losses, kApart, labels, {.min_negatives = 99}), Flags(6, 1));
}

TEST(Mine, AnchorsThatSayTheSameBoxCountOnce) {
  std::vector<Corners> boxes = kApart;
  boxes[2] = boxes[0];  // a positive, less hard than 0
  boxes[4] = boxes[3];  // a negative
  // One positive is left, so three negatives count: 0, 1 and 3.
  EXPECT_EQ(mine({{6, 5, 4, 3, 2, 1}}, boxes, {{0, 0, 1, 0, 0, 2}}, {}), (Flags{1, 1, 0, 1, 0, 1}));
  EXPECT_EQ(mine({{6, 5, 4, 3, 2, 1}}, boxes, {{0, 0, 1, 0, 0, 2}}, {.most = 2}),
            Flags(6, 0));  // no positive among the two
}

struct Picture {
  std::vector<Corners> anchors = make_anchors({.grids = {4, 2}});
  std::vector<BoxCode> codes;
  std::vector<float> scores;
  int classes = 3;
};

Picture random_picture(unsigned seed) {
  Picture picture;
  std::mt19937 random(seed);
  std::normal_distribution<float> code(0, 2);
  for (std::size_t i = 0; i < picture.anchors.size(); ++i) {
    picture.codes.push_back({code(random), code(random), code(random), code(random)});
    for (int k = 0; k <= picture.classes; ++k)
      picture.scores.push_back(static_cast<float>(random() % 30) / 30);
  }
  return picture;
}

/// As TensorFlow does it: each class on its own, joined, sorted, cut, limited.
std::vector<Detection> plain_detections(const Picture& picture, double width, double height,
                                        const DetectionOptions& options) {
  std::vector<Detection> all;
  const auto columns = static_cast<std::size_t>(picture.classes) + 1;
  for (std::size_t label = 0; label + 1 < columns; ++label) {
    Boxes own;
    for (std::size_t i = 0; i < picture.anchors.size(); ++i) {
      const float score = picture.scores[i * columns + label + 1];
      if (!(score > options.least_score)) continue;
      own.boxes.push_back(decode(picture.codes[i], picture.anchors[i]));
      own.scores.push_back(score);
    }
    for (const int kept : plain_suppress(own, options.most_overlap, options.most_per_class)) {
      const auto i = static_cast<std::size_t>(kept);
      const auto inside = [](float edge) { return std::clamp(double{edge}, 0., 1.); };
      const double left = inside(own.boxes[i].left) * width,
                   top = inside(own.boxes[i].top) * height;
      all.push_back({.box = {left, top, inside(own.boxes[i].right) * width - left,
                             inside(own.boxes[i].bottom) * height - top},
                     .label = static_cast<int>(label),
                     .score = own.scores[i]});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Detection& a, const Detection& b) { return a.score > b.score; });
  std::erase_if(all, [](const Detection& one) { return !(one.box.area() > 0); });
  if (static_cast<int>(all.size()) > options.most)
    all.resize(static_cast<std::size_t>(options.most));
  return all;
}

TEST(Detections, EqualPlainLoops) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Picture picture = random_picture(seed);
    for (const DetectionOptions& options : std::vector<DetectionOptions>{
             {}, {.least_score = 0.8}, {.most_overlap = 0.2, .most_per_class = 5}, {.most = 7}}) {
      const auto found = detections(picture.anchors, picture.codes, picture.scores, picture.classes,
                                    640, 480, options);
      const auto expected = plain_detections(picture, 640, 480, options);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].box, expected[i].box) << seed << ' ' << i;
        EXPECT_EQ(found[i].label, expected[i].label);
        EXPECT_EQ(found[i].score, expected[i].score);
      }
    }
  }
}

TEST(Detections, AreInPixelsAndInsideThePicture) {
  const std::vector<Corners> anchors = {{-0.5F, 0.25F, 0.5F, 0.75F}, {1.5F, 0, 2, 1}};
  const std::vector<BoxCode> codes(2);
  const auto found = detections(anchors, codes, {{0, 0.9F, 0, 0.8F}}, 1, 200, 100);
  ASSERT_EQ(found.size(), 1U);  // the second is outside
  EXPECT_EQ(found[0].box, (Box{50, 0, 100, 50}));
  EXPECT_EQ(found[0].label, 0);
  EXPECT_EQ(found[0].score, 0.9F);
}

TEST(Detections, WhatIsNotANumberIsLeftOut) {
  const std::vector<Corners> anchors = {{0, 0, 1, 1}, {0, 0, 1, 1}};
  const std::vector<BoxCode> codes = {{kNan, 0, 0, 0}, {}};
  EXPECT_EQ(detections(anchors, codes, {{0, 0.9F, 0, kNan}}, 1, 200, 100).size(), 0U);
}

}  // namespace suppress_test
