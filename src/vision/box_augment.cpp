#include <lockstep/error.h>
#include <lockstep/vision/box_augment.h>

#include <algorithm>
#include <cmath>

#include "vision/resize.h"

namespace lockstep::vision {
namespace {

/// The red, green and blue of a grey that looks as bright.
constexpr std::array<double, 3> kBrightness = {0.299, 0.587, 0.114};

double between(double low, double high, KeyedRandom& random) {
  return low + (high - low) * random.uniform();
}

/// Contrast about the middle grey, then saturation, then brightness.
ColourChange random_colours(double jitter, KeyedRandom& random) {
  const double low = std::max(0.0, 1 - jitter), high = 1 + jitter;
  const double brightness = between(low, high, random);
  const double contrast = between(low, high, random);
  const double saturation = between(low, high, random);
  constexpr double kMiddle = 127.5;
  ColourChange change = {};
  for (std::size_t to = 0; to < 3; ++to) {
    for (std::size_t from = 0; from < 3; ++from)
      change[to][from] = static_cast<float>(
          brightness * contrast *
          ((1 - saturation) * kBrightness[from] + (to == from ? saturation : 0)));
    change[to][3] = static_cast<float>(brightness * (1 - contrast) * kMiddle);
  }
  return change;
}

/// A rectangle of 0.1 to 1 of the area whose width is `ratio` times its height, at a random place
/// of whole pixels; false when none was found. As TensorFlow's sample_distorted_bounding_box.
bool draw_crop(int width, int height, double ratio, KeyedRandom& random, Box& crop) {
  constexpr double kLeast = 0.1, kMost = 1, kBelowHalf = 0.5 - 1e-7;
  const double area = static_cast<double>(width) * height;
  const auto rounded = [](double value) { return static_cast<int>(std::lrint(value)); };
  int tallest = rounded(std::sqrt(kMost * area / ratio));
  if (rounded(tallest * ratio) > width) tallest = static_cast<int>((width + kBelowHalf) / ratio);
  tallest = std::min(tallest, height);
  int high = std::min(rounded(std::sqrt(kLeast * area / ratio)), tallest);
  high += static_cast<int>(random.below(tallest - high + 1));
  int wide = rounded(high * ratio);
  if (static_cast<double>(wide) * high < kLeast * area) wide = rounded(++high * ratio);
  if (static_cast<double>(wide) * high > kMost * area) wide = rounded(--high * ratio);
  const double found = static_cast<double>(wide) * high;
  if (found < kLeast * area || found > kMost * area || wide > width || high > height || wide < 1 ||
      high < 1)
    return false;
  crop.top = high < height ? static_cast<double>(random.below(height - high)) : 0;
  crop.left = wide < width ? static_cast<double>(random.below(width - wide)) : 0;
  crop.width = wide;
  crop.height = high;
  return true;
}

/// Whether one thing at least lies inside by the share that is asked for.
bool covers(const Box& crop, std::span<const Box> things, double share) {
  return std::ranges::any_of(things, [&](const Box& thing) {
    return thing.area() >= 1 && shared_area(crop, thing) >= share * thing.area();
  });
}

/// The random crop of SSD in a ground of whole pixels, whose upper left corner is (0, 0).
void crop_at_random(int width, int height, std::vector<Box> things, KeyedRandom& random,
                    View& view) {
  constexpr std::array<double, 7> kShares = {0, 0.1, 0.3, 0.5, 0.7, 0.9, 1};
  constexpr double kAsItIs = 0.15;
  constexpr int kAttempts = 100;
  const double share = kShares[static_cast<std::size_t>(random.below(kShares.size()))];
  if (random.uniform() <= kAsItIs) return;
  for (Box& thing : things) {
    const double left = std::floor(thing.left), top = std::floor(thing.top);
    thing = {left, top, std::floor(thing.right()) - left, std::floor(thing.bottom()) - top};
  }
  if (things.empty())
    things.push_back({0, 0, static_cast<double>(width), static_cast<double>(height)});
  view.least_covered = share;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Box crop;
    if (!draw_crop(width, height, between(0.5, 2, random), random, crop)) continue;
    if (!covers(crop, things, share)) continue;
    view.area = crop;
    return;
  }
}

}  // namespace

View whole_view(const ImageSize& size) {
  return {.area = {0, 0, static_cast<double>(size.width), static_cast<double>(size.height)}};
}

View random_view(const ImageSize& size, std::span<const LabelledBox> boxes,
                 const BoxAugment& augment, KeyedRandom& random) {
  View view = whole_view(size);
  if (augment.jitter > 0) {
    view.changes_colours = true;
    view.colours = random_colours(augment.jitter, random);
  }
  // The ground that the picture lies on, and where.
  int width = size.width, height = size.height, left = 0, top = 0;
  if (augment.expand > 1 && random.coin()) {
    const double times = between(1, augment.expand, random);
    width = static_cast<int>(std::lround(times * size.width));
    height = static_cast<int>(std::lround(times * size.height));
    left = static_cast<int>(random.below(width - size.width + 1));
    top = static_cast<int>(random.below(height - size.height + 1));
    view.area = whole_view({width, height}).area;
  }
  if (augment.crop) {
    std::vector<Box> things;
    for (const LabelledBox& thing : boxes)
      if (!thing.crowd)
        things.push_back(
            {thing.box.left + left, thing.box.top + top, thing.box.width, thing.box.height});
    crop_at_random(width, height, std::move(things), random, view);
  }
  view.area.left -= left;
  view.area.top -= top;
  if (augment.flip) view.flip = random.coin();
  return view;
}

SeenBoxes seen_boxes(std::span<const LabelledBox> boxes, const View& view) {
  SeenBoxes seen;
  const Box& area = view.area;
  for (const LabelledBox& thing : boxes) {
    const Box& box = thing.box;
    const double shared = shared_area(box, area);
    if (thing.crowd || shared <= 0 || shared < view.least_covered * box.area()) continue;
    const auto across = [&](double x) {
      return static_cast<float>(std::clamp((x - area.left) / area.width, 0.0, 1.0));
    };
    const auto down = [&](double y) {
      return static_cast<float>(std::clamp((y - area.top) / area.height, 0.0, 1.0));
    };
    Corners corners{down(box.top), across(box.left), down(box.bottom()), across(box.right())};
    if (view.flip) {
      const float left = 1 - corners.right;
      corners.right = 1 - corners.left;
      corners.left = left;
    }
    seen.things.push_back(corners);
    seen.labels.push_back(thing.label);
  }
  return seen;
}

void write_view(const Image& from, const ImageSize& stored, const View& view, int size,
                const ByteScale& scale, float* to) {
  check(scale.channels() == 3, "write_view: pictures are RGB");
  const double across = static_cast<double>(from.width) / stored.width;
  const double down = static_cast<double>(from.height) / stored.height;
  std::array<float, 3> mean = {};
  for (int c = 0; c < 3; ++c) mean[static_cast<std::size_t>(c)] = -scale.shift(c) / scale.factor(c);
  resize_planes(from,
                {view.area.left * across, view.area.top * down, view.area.width * across,
                 view.area.height * down},
                size, view.flip, mean, to);
  const std::size_t pixels = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  float *red = to, *green = to + pixels, *blue = to + 2 * pixels;
  if (view.changes_colours)
    for (std::size_t i = 0; i < pixels; ++i) {
      const auto changed = [&](const std::array<float, 4>& by) {
        return std::clamp(by[0] * red[i] + by[1] * green[i] + by[2] * blue[i] + by[3], 0.F, 255.F);
      };
      const std::array<float, 3> now = {changed(view.colours[0]), changed(view.colours[1]),
                                        changed(view.colours[2])};
      red[i] = now[0];
      green[i] = now[1];
      blue[i] = now[2];
    }
  for (int channel = 0; channel < 3; ++channel) {
    const float factor = scale.factor(channel), shift = scale.shift(channel);
    for (std::size_t i = 0; i < pixels; ++i, ++to) *to = *to * factor + shift;
  }
}

}  // namespace lockstep::vision
