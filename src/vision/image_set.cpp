#include <lockstep/error.h>
#include <lockstep/vision/image_set.h>

namespace lockstep::vision {
namespace {

/// Before anything is made of them.
const torch::Tensor& checked_images(const torch::Tensor& images) {
  if (images.dim() != 4 || images.scalar_type() != torch::kUInt8)
    throw ConfigError("ImageSet: images are bytes [n, channels, height, width]");
  return images;
}

}  // namespace

ImageSet::ImageSet(torch::Tensor images, torch::Tensor labels, std::vector<std::string> classes,
                   const ImageSetOptions& options)
    : images_(checked_images(images).contiguous()),
      labels_(labels.contiguous()),
      classes_(std::move(classes)),
      options_(options),
      scale_(options.normalisation, static_cast<int>(images_.size(1))) {
  if (labels_.scalar_type() != torch::kInt64 || labels_.sizes() != torch::IntArrayRef{size()})
    throw ConfigError("ImageSet: labels are int64 [n], one an image");
  if (size() > 0 &&
      (labels_.min().item<std::int64_t>() < 0 ||
       labels_.max().item<std::int64_t>() >= static_cast<std::int64_t>(classes_.size())))
    throw ConfigError("ImageSet: labels are numbers of the " + std::to_string(classes_.size()) +
                      " classes");
  if (options.padding < 0) throw ConfigError("ImageSet: the padding is at least 0");
}

torch::data::Example<> ImageSet::gather(std::int64_t epoch,
                                        std::span<const std::int64_t> indices) const {
  const auto count = static_cast<std::int64_t>(indices.size());
  const std::int64_t height = images_.size(2), width = images_.size(3);
  torch::data::Example<> batch{torch::empty({count, images_.size(1), height, width}),
                               torch::empty({count}, torch::kInt64)};
  const std::int64_t pixels = images_.size(1) * height * width;
  const auto* images = images_.const_data_ptr<std::uint8_t>();
  const auto* labels = labels_.const_data_ptr<std::int64_t>();
  auto* data = batch.data.mutable_data_ptr<float>();
  auto* target = batch.target.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    check(0 <= index && index < size(), "ImageSet: there is no image of that number");
    Shift shift;
    if (options_.augment) {
      KeyedRandom random(options_.seed, epoch, index);
      shift = random_shift(options_.padding, random);
    }
    write_shifted(images + index * pixels, static_cast<int>(height), static_cast<int>(width), shift,
                  scale_, data);
    data += pixels;
    *target++ = labels[index];
  }
  return batch;
}

torch::data::Example<> ImageSet::at(std::int64_t epoch, std::int64_t index) const {
  const torch::data::Example<> batch = gather(epoch, std::span(&index, 1));
  return {batch.data[0], batch.target[0]};
}

}  // namespace lockstep::vision
