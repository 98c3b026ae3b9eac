#include "families/detect/scene_composer.h"

#include <algorithm>
#include <cmath>

namespace lockstep::apps {
namespace {

constexpr int kMostThings = 4;
constexpr int kPlaces = 10;         // tried for a thing before it is left out
constexpr double kBeyond = 0.1;     // of a thing may be outside of the picture
constexpr double kLeastPart = 0.4;  // of a background's short side is shown
constexpr double kEnlarged = 2.0;   // at most

std::size_t as_index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Colours times alpha, from 0 to 255, and alpha from 0 to 1: four numbers a pixel.
struct SceneLayer {
  int width, height;
  std::vector<float> values;
};

/// The source pixels that make a target pixel, and how much each counts.
struct PixelTaps {
  int first;
  std::vector<float> weights;
};

/// Stretches `length` pixels from `begin` on, of `limit`, over `count`. A triangle that is as wide
/// as two target pixels, and as two source pixels at least.
std::vector<PixelTaps> pixel_taps(double begin, double length, int limit, int count,
                                  bool mirrored) {
  const double scale = length / count, reach = std::max(1.0, scale);
  std::vector<PixelTaps> taps;
  for (int i = 0; i < count; ++i) {
    const double centre = begin + (i + 0.5) * scale;
    const int first = std::clamp(static_cast<int>(std::floor(centre - reach)), 0, limit - 1);
    const int last = std::clamp(static_cast<int>(std::ceil(centre + reach)), first, limit - 1);
    std::vector<double> weights;
    double sum = 0;
    for (int j = first; j <= last; ++j) {
      weights.push_back(std::max(0.0, 1 - std::abs(j + 0.5 - centre) / reach));
      sum += weights.back();
    }
    PixelTaps& tap = taps.emplace_back(PixelTaps{first, {}});
    for (const double weight : weights) tap.weights.push_back(static_cast<float>(weight / sum));
  }
  if (mirrored) std::ranges::reverse(taps);
  return taps;
}

/// A row of an image, as a layer has it.
void premultiplied_row(const Image& image, int y, std::vector<float>& row) {
  const std::size_t channels = as_index(image.channels), width = as_index(image.width);
  const std::uint8_t* pixel = image.pixels.data() + as_index(y) * width * channels;
  for (std::size_t x = 0; x < width; ++x, pixel += channels) {
    const float alpha = channels == 4 ? static_cast<float>(pixel[3]) / 255.0F : 1.0F;
    for (std::size_t c = 0; c < 3; ++c) row[4 * x + c] = static_cast<float>(pixel[c]) * alpha;
    row[4 * x + 3] = alpha;
  }
}

/// The part of an image that the taps cover, of their size: across first, then down.
SceneLayer resampled(const Image& image, const std::vector<PixelTaps>& columns,
                     const std::vector<PixelTaps>& rows) {
  const std::size_t width = columns.size(), stride = 4 * width;
  const int first = rows.front().first;
  const int last = rows.back().first + static_cast<int>(rows.back().weights.size());
  std::vector<float> source(4 * as_index(image.width)), across(as_index(last - first) * stride);
  for (int y = first; y < last; ++y) {
    premultiplied_row(image, y, source);
    float* target = across.data() + as_index(y - first) * stride;
    for (const PixelTaps& tap : columns) {
      const float* from = source.data() + 4 * as_index(tap.first);
      for (const float weight : tap.weights)
        for (std::size_t c = 0; c < 4; ++c) target[c] += weight * *from++;
      target += 4;
    }
  }
  SceneLayer layer{static_cast<int>(width), static_cast<int>(rows.size()),
                   std::vector<float>(rows.size() * stride)};
  for (std::size_t y = 0; y < rows.size(); ++y) {
    float* target = layer.values.data() + y * stride;
    const float* from = across.data() + as_index(rows[y].first - first) * stride;
    for (const float weight : rows[y].weights)
      for (std::size_t i = 0; i < stride; ++i) target[i] += weight * *from++;
  }
  return layer;
}

/// Somewhere between `low` and `high`.
double drawn_between(KeyedRandom& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

/// Brighter or darker, warmer or colder, a little.
void tint(SceneLayer& layer, KeyedRandom& random) {
  const double brightness = drawn_between(random, 0.8, 1.2);
  float factors[3];
  for (float& factor : factors)
    factor = static_cast<float>(brightness * drawn_between(random, 0.94, 1.06));
  for (std::size_t i = 0; i < layer.values.size(); i += 4)
    for (std::size_t c = 0; c < 3; ++c)
      layer.values[i + c] =
          std::min(layer.values[i + c] * factors[c], 255.0F * layer.values[i + 3]);
}

SceneLayer background_layer(const Image& image, KeyedRandom& random, int size) {
  const double side = drawn_between(random, kLeastPart, 1) * std::min(image.width, image.height);
  const double x = drawn_between(random, 0, image.width - side);
  const double y = drawn_between(random, 0, image.height - side);
  const bool mirrored = random.coin();
  SceneLayer layer = resampled(image, pixel_taps(x, side, image.width, size, mirrored),
                               pixel_taps(y, side, image.height, size, false));
  tint(layer, random);
  return layer;
}

SceneLayer thing_layer(const Image& image, KeyedRandom& random, int size) {
  const double longer = std::max(image.width, image.height), least = size / 6.0;
  const double most = std::min(0.6 * size, std::max(least, kEnlarged * longer));
  const double scale = drawn_between(random, least, most) / longer;
  const int width = std::max(1, static_cast<int>(std::lround(image.width * scale)));
  const int height = std::max(1, static_cast<int>(std::lround(image.height * scale)));
  const bool mirrored = random.coin();
  SceneLayer layer = resampled(image, pixel_taps(0, image.width, image.width, width, mirrored),
                               pixel_taps(0, image.height, image.height, height, false));
  tint(layer, random);
  return layer;
}

/// A picture that things are put on, which knows whose each pixel is.
class SceneCanvas {
 public:
  explicit SceneCanvas(SceneLayer background)
      : size_(background.width),
        picture_(std::move(background)),
        owners_(as_index(size_) * as_index(size_), kNobody) {}

  /// Puts a thing on top of all others, unless less than half of it or of another would be left.
  bool put(const SceneLayer& thing, int left, int top, int label) {
    std::int64_t all = 0, inside = 0;
    std::vector<std::int64_t> covered(things_.size());
    for (std::size_t i = 3; i < thing.values.size(); i += 4) all += thing.values[i] > 0.5F ? 1 : 0;
    each_inside(thing, left, top, [&](const float* pixel, std::size_t at) {
      if (pixel[3] <= 0.5F) return;
      ++inside;
      if (owners_[at] != kNobody) ++covered[as_index(owners_[at])];
    });
    if (2 * inside < all || inside == 0) return false;
    for (std::size_t i = 0; i < things_.size(); ++i)
      if (2 * (things_[i].visible - covered[i]) < things_[i].all) return false;
    for (std::size_t i = 0; i < things_.size(); ++i) things_[i].visible -= covered[i];
    paint(thing, left, top);
    things_.push_back({label, all, inside});
    return true;
  }

  int size() const { return size_; }

  Scene scene() const {
    Scene scene{{size_, size_, 3, {}}, {}};
    scene.image.pixels.reserve(owners_.size() * 3);
    for (std::size_t i = 0; i < picture_.values.size(); ++i)
      if (i % 4 != 3)
        scene.image.pixels.push_back(
            static_cast<std::uint8_t>(std::clamp(picture_.values[i], 0.0F, 255.0F) + 0.5F));
    for (std::size_t i = 0; i < things_.size(); ++i) scene.boxes.push_back(box(i));
    return scene;
  }

 private:
  static constexpr int kNobody = -1;

  struct Thing {
    int label;
    std::int64_t all;      // its pixels, those outside of the picture and covered ones too
    std::int64_t visible;  // of them
  };

  /// Calls visit(pixel of the thing, place in the picture) for what is inside the picture.
  template <typename Visit>
  void each_inside(const SceneLayer& thing, int left, int top, const Visit& visit) const {
    for (int y = std::max(0, -top); y < std::min(thing.height, size_ - top); ++y)
      for (int x = std::max(0, -left); x < std::min(thing.width, size_ - left); ++x)
        visit(thing.values.data() + 4 * (as_index(y) * as_index(thing.width) + as_index(x)),
              as_index(top + y) * as_index(size_) + as_index(left + x));
  }

  void paint(const SceneLayer& thing, int left, int top) {
    const int owner = static_cast<int>(things_.size());
    each_inside(thing, left, top, [&](const float* pixel, std::size_t at) {
      for (std::size_t c = 0; c < 3; ++c) {
        float& colour = picture_.values[4 * at + c];
        colour = colour * (1 - pixel[3]) + pixel[c];
      }
      if (pixel[3] > 0.5F) owners_[at] = owner;
    });
  }

  SceneBox box(std::size_t thing) const {
    int left = size_, top = size_, right = 0, bottom = 0;
    for (int y = 0; y < size_; ++y)
      for (int x = 0; x < size_; ++x)
        if (owners_[as_index(y) * as_index(size_) + as_index(x)] == static_cast<int>(thing)) {
          left = std::min(left, x);
          right = std::max(right, x + 1);
          top = std::min(top, y);
          bottom = std::max(bottom, y + 1);
        }
    const Thing& its = things_[thing];
    return {its.label, left, top, right - left, bottom - top, its.visible};
  }

  const int size_;
  SceneLayer picture_;
  std::vector<int> owners_;
  std::vector<Thing> things_;
};

/// Where something of `length` begins, in a picture of `size`.
int somewhere(KeyedRandom& random, int length, int size) {
  return static_cast<int>(
      std::floor(drawn_between(random, -kBeyond * length, size - (1 - kBeyond) * length)));
}

template <typename T>
const T& one_of(const std::vector<T>& items, KeyedRandom& random) {
  return items[as_index(random.below(static_cast<std::int64_t>(items.size())))];
}

}  // namespace

Scene compose_scene(const std::vector<std::vector<Image>>& cutouts,
                    const std::vector<Image>& backgrounds, KeyedRandom random, int size) {
  SceneCanvas canvas(background_layer(one_of(backgrounds, random), random, size));
  const std::int64_t things = 1 + random.below(kMostThings);
  for (std::int64_t i = 0; i < things; ++i) {
    const auto label = random.below(static_cast<std::int64_t>(cutouts.size()));
    const SceneLayer thing = thing_layer(one_of(cutouts[as_index(label)], random), random, size);
    for (int place = 0; place < kPlaces; ++place) {
      const int left = somewhere(random, thing.width, size);
      const int top = somewhere(random, thing.height, size);
      if (canvas.put(thing, left, top, static_cast<int>(label))) break;
    }
  }
  return canvas.scene();
}

}  // namespace lockstep::apps
