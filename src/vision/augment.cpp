#include <lockstep/error.h>
#include <lockstep/vision/augment.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace lockstep::vision {

ByteScale::ByteScale(const Normalisation& how, int channels) {
  const auto count = static_cast<std::size_t>(channels);
  const bool plain = how.mean.empty() && how.deviation.empty();
  if (!plain && (how.mean.size() != count || how.deviation.size() != count))
    throw ConfigError("normalisation: a mean and a deviation for each of the " +
                      std::to_string(channels) + " channels are needed, not " +
                      std::to_string(how.mean.size()) + " and " +
                      std::to_string(how.deviation.size()));
  for (std::size_t channel = 0; channel < count; ++channel) {
    const double mean = plain ? 0 : how.mean[channel];
    const double deviation = plain ? 1 : how.deviation[channel];
    if (!(deviation > 0)) throw ConfigError("normalisation: a deviation must be above 0");
    auto& table = tables_.emplace_back();
    for (std::size_t byte = 0; byte < table.size(); ++byte)
      table[byte] = static_cast<float>((static_cast<double>(byte) / 255 - mean) / deviation);
    factors_.push_back(static_cast<float>(1 / (255 * deviation)));
  }
}

Shift random_shift(int padding, KeyedRandom& random) {
  const auto pixels = [&] { return static_cast<int>(random.below(2 * padding + 1)) - padding; };
  const int right = pixels(), down = pixels();
  return {right, down, random.coin()};
}

void write_shifted(const std::uint8_t* from, int height, int width, const Shift& shift,
                   const ByteScale& scale, float* to) {
  // Columns of the crop that lie on the image.
  const int begin = std::clamp(-shift.right, 0, width);
  const int end = std::clamp(width - shift.right, begin, width);
  for (int channel = 0; channel < scale.channels(); ++channel, from += height * width) {
    const auto& table = scale.table(channel);
    for (int y = 0; y < height; ++y, to += width) {
      const int row = y + shift.down;
      if (row < 0 || row >= height) {
        std::fill_n(to, width, table[0]);
        continue;
      }
      const std::uint8_t* bytes = from + row * width + shift.right;
      std::fill_n(to, begin, table[0]);
      for (int x = begin; x < end; ++x) to[x] = table[bytes[x]];
      std::fill(to + end, to + width, table[0]);
      if (shift.flip) std::reverse(to, to + width);
    }
  }
}

Box random_box(int width, int height, KeyedRandom& random) {
  constexpr double kLeastArea = 0.08, kLeastRatio = 3.0 / 4, kMostRatio = 4.0 / 3;
  const double wide = width, high = height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = (kLeastArea + (1 - kLeastArea) * random.uniform()) * wide * high;
    const double ratio = std::exp(
        std::log(kLeastRatio) + (std::log(kMostRatio) - std::log(kLeastRatio)) * random.uniform());
    const double w = std::sqrt(area * ratio), h = std::sqrt(area / ratio);
    if (w <= wide && h <= high)
      return {(wide - w) * random.uniform(), (high - h) * random.uniform(), w, h};
  }
  const double w = std::min(wide, high * kMostRatio), h = std::min(high, wide / kLeastRatio);
  return {(wide - w) / 2, (high - h) / 2, w, h};
}

Box centre_box(int width, int height, double part) {
  const double side = part * std::min(width, height);
  return {(width - side) / 2, (height - side) / 2, side, side};
}

}  // namespace lockstep::vision
