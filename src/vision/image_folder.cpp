#include <lockstep/error.h>
#include <lockstep/vision/image_file.h>
#include <lockstep/vision/image_folder.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "vision/class_folder.h"

namespace lockstep::vision {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20U;  // of one file

}  // namespace

Normalisation imagenet_normalisation() {
  return {.mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}};
}

ImageFolder::ImageFolder(const std::string& folder, const ImageFolderOptions& options)
    : options_(options), scale_(options.normalisation, 3) {
  constexpr int kMostSide = 8192;
  if (options.size < 1 || options.size > kMostSide)
    throw ConfigError("ImageFolder: a size of 1 to 8192 is needed, not " +
                      std::to_string(options.size));
  if (!(options.centre > 0 && options.centre <= 1))
    throw ConfigError("ImageFolder: centre is a part of the image, above 0 and at most 1");
  std::vector<File> files;
  for (ClassFolder& found : list_classes(folder)) {
    const auto label = static_cast<std::int64_t>(classes_.size());
    for (std::string& file : found.files) files.push_back({std::move(file), label});
    classes_.push_back(std::move(found.name));
  }
  files_ = std::make_shared<const std::vector<File>>(std::move(files));
}

std::vector<std::int64_t> ImageFolder::counts() const {
  std::vector<std::int64_t> result(classes_.size());
  for (const File& file : *files_) ++result[to_size(file.label)];
  return result;
}

/// The box is chosen on the image as it is stored, which is then decoded no larger than needed.
void ImageFolder::write(std::int64_t epoch, std::int64_t index, float* to) const {
  const std::string& path = file(index);
  const std::vector<std::uint8_t> bytes = base::read_bytes(path, kMostBytes);
  const auto [width, height] = image_size(path, bytes);
  Box box = centre_box(width, height, options_.centre);
  bool flip = false;
  if (options_.augment) {
    KeyedRandom random(options_.seed, epoch, index);
    box = random_box(width, height, random);
    flip = random.coin();
  }
  const double needed = std::min(1.0, options_.size / std::min(box.width, box.height));
  const Image image =
      decode_image(path, bytes, static_cast<int>(std::ceil(needed * std::min(width, height))));
  const double across = static_cast<double>(image.width) / width;
  const double down = static_cast<double>(image.height) / height;
  write_resized(image, {box.left * across, box.top * down, box.width * across, box.height * down},
                options_.size, flip, scale_, to);
}

torch::data::Example<> ImageFolder::gather(std::int64_t epoch,
                                           std::span<const std::int64_t> indices) const {
  const auto count = static_cast<std::int64_t>(indices.size());
  const std::int64_t side = options_.size;
  torch::data::Example<> batch{torch::empty({count, 3, side, side}),
                               torch::empty({count}, torch::kInt64)};
  auto* data = batch.data.mutable_data_ptr<float>();
  auto* target = batch.target.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    check(0 <= index && index < size(), "ImageFolder: there is no image of that number");
    write(epoch, index, data);
    data += 3 * side * side;
    *target++ = label(index);
  }
  return batch;
}

torch::data::Example<> ImageFolder::at(std::int64_t epoch, std::int64_t index) const {
  const torch::data::Example<> batch = gather(epoch, std::span(&index, 1));
  return {batch.data[0], batch.target[0]};
}

}  // namespace lockstep::vision
