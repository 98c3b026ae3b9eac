#include <lockstep/error.h>
#include <lockstep/vision/box_pictures.h>
#include <lockstep/vision/boxed_pictures.h>

#include <algorithm>
#include <cmath>

namespace lockstep::vision {
namespace {

/// A row of normalised floats [3, size, size] as bytes.
Image bytes_of(const torch::Tensor& row, const ByteScale& scale) {
  const torch::Tensor planes = row.contiguous();
  const auto size = static_cast<int>(planes.size(1));
  Image image{size, size, 3, {}};
  image.pixels.resize(static_cast<std::size_t>(planes.numel()));
  const float* from = planes.data_ptr<float>();
  for (int channel = 0; channel < 3; ++channel)
    for (int i = 0; i < size * size; ++i) {
      const float value = (*from++ - scale.shift(channel)) / scale.factor(channel);
      image.pixels[static_cast<std::size_t>(3 * i + channel)] =
          static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.F, 255.F)));
    }
  return image;
}

/// The things that anchors belong to: several anchors may have the same.
std::vector<LabelledBox> things_of(const torch::Tensor& labels, const torch::Tensor& codes,
                                   const std::vector<Corners>& anchors, double size) {
  const auto label = labels.accessor<std::int64_t, 1>();
  const auto code = codes.accessor<float, 2>();
  std::vector<LabelledBox> things;
  for (std::size_t i = 0; i < anchors.size(); ++i) {
    const auto anchor = static_cast<std::int64_t>(i);
    if (label[anchor] == 0) continue;
    const auto own = code[anchor];
    const Corners corners = decode({own[0], own[1], own[2], own[3]}, anchors[i]);
    LabelledBox thing{.label = static_cast<int>(label[anchor]) - 1};
    thing.box = {corners.left * size, corners.top * size, (corners.right - corners.left) * size,
                 (corners.bottom - corners.top) * size};
    const auto same = [&](const LabelledBox& other) {
      return other.label == thing.label && overlap(other.box, thing.box) > 0.99;
    };
    if (std::ranges::none_of(things, same)) things.push_back(thing);
  }
  return things;
}

}  // namespace

std::vector<Image> shown(const DetectionBatch& batch, const BoxedPicturesOptions& options,
                         const std::vector<std::string>& classes) {
  const ByteScale scale(options.normalisation, 3);
  std::vector<Image> images;
  for (std::int64_t row = 0; row < batch.images.size(0); ++row) {
    images.push_back(bytes_of(batch.images[row], scale));
    draw_boxes(images.back(),
               drawn(things_of(batch.labels[row], batch.codes[row], options.anchors, options.size),
                     classes));
  }
  return images;
}

}  // namespace lockstep::vision
