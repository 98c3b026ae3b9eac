#include "vision/resize.h"

#include <lockstep/error.h>
#include <lockstep/vision/augment.h>

#include <algorithm>
#include <cmath>

namespace lockstep::vision {
namespace {

/// What one output pixel takes from a line of input pixels: from `first` on, with these weights.
struct Taps {
  int first = 0;
  std::vector<float> weights;  // their sum is 1
  bool outside = false;        // its centre is not on the line
};

/// Triangles as wide as two output pixels, or two input pixels where those are larger.
std::vector<Taps> triangle_taps(double begin, double length, int inputs, int outputs) {
  const double step = length / outputs;
  const double radius = std::max(step, 1.0);
  std::vector<Taps> result;
  for (int i = 0; i < outputs; ++i) {
    const double centre = begin + (i + 0.5) * step;
    Taps taps;
    taps.outside = centre < 0 || centre > inputs;
    taps.first = std::clamp(static_cast<int>(std::floor(centre - radius + 0.5)), 0, inputs - 1);
    const int last = std::clamp(static_cast<int>(std::ceil(centre + radius - 0.5)), 1, inputs);
    double sum = 0;
    for (int x = taps.first; x < std::max(last, taps.first + 1); ++x) {
      const double weight = std::max(0.0, 1 - std::abs(x + 0.5 - centre) / radius);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    if (sum > 0)
      for (float& weight : taps.weights) weight /= static_cast<float>(sum);
    else
      taps.weights.assign(1, 1.F);
    result.push_back(std::move(taps));
  }
  return result;
}

/// One row of RGB pixels, resized: planes of red, green and blue.
void resize_row(const std::uint8_t* row, const std::vector<Taps>& columns, float* to) {
  const std::size_t size = columns.size();
  for (std::size_t x = 0; x < size; ++x) {
    const std::uint8_t* pixel = row + 3 * columns[x].first;
    float red = 0, green = 0, blue = 0;
    for (const float weight : columns[x].weights) {
      red += weight * static_cast<float>(pixel[0]);
      green += weight * static_cast<float>(pixel[1]);
      blue += weight * static_cast<float>(pixel[2]);
      pixel += 3;
    }
    to[x] = red;
    to[size + x] = green;
    to[2 * size + x] = blue;
  }
}

}  // namespace

void resize_planes(const Image& from, const Box& box, int size, bool flip,
                   const std::array<float, 3>& outside, float* to) {
  check(from.channels == 3, "resize_planes: images are RGB");
  check(from.width > 0 && from.height > 0 && size > 0, "resize_planes: an image has pixels");
  std::vector<Taps> columns = triangle_taps(box.left, box.width, from.width, size);
  if (flip) std::reverse(columns.begin(), columns.end());
  const std::vector<Taps> rows = triangle_taps(box.top, box.height, from.height, size);

  // First along the rows that are needed, then down the columns.
  const int top = rows.front().first;
  const int bottom = rows.back().first + static_cast<int>(rows.back().weights.size());
  const auto line = static_cast<std::size_t>(3 * size);
  std::vector<float> narrow(static_cast<std::size_t>(bottom - top) * line);
  for (int y = top; y < bottom; ++y)
    resize_row(from.pixels.data() + std::size_t{3} * static_cast<std::size_t>(from.width) *
                                        static_cast<std::size_t>(y),
               columns, narrow.data() + static_cast<std::size_t>(y - top) * line);
  std::vector<float> sums(line);
  for (int y = 0; y < size; ++y) {
    const Taps& taps = rows[static_cast<std::size_t>(y)];
    const float* input = narrow.data() + static_cast<std::size_t>(taps.first - top) * line;
    std::fill(sums.begin(), sums.end(), 0.F);
    for (const float weight : taps.weights)
      for (std::size_t x = 0; x < line; ++x) sums[x] += weight * *input++;
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const float* sum = sums.data() + channel * static_cast<std::size_t>(size);
      float* out = to + (static_cast<int>(channel) * size + y) * size;
      for (std::size_t x = 0; x < columns.size(); ++x)
        out[x] = taps.outside || columns[x].outside ? outside[channel] : sum[x];
    }
  }
}

void write_resized(const Image& from, const Box& box, int size, bool flip, const ByteScale& scale,
                   float* to) {
  check(scale.channels() == 3, "write_resized: images are RGB");
  resize_planes(from, box, size, flip, {}, to);
  for (int channel = 0; channel < 3; ++channel) {
    const float factor = scale.factor(channel), shift = scale.shift(channel);
    for (int i = 0; i < size * size; ++i, ++to) *to = *to * factor + shift;
  }
}

}  // namespace lockstep::vision
