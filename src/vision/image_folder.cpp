#include <lockstep/error.h>
#include <lockstep/vision/image_folder.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "vision/class_folder.h"

namespace lockstep::vision {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20U;  // of one file

/// Whether an image belongs to the subset that was asked for: by its name, so that it stays where
/// it is when others come or go.
bool belongs(const std::string& path, const ImageFolderOptions& options) {
  if (options.held_out == 0) return true;
  constexpr std::uint64_t kParts = 1'000'000;
  const std::uint64_t hash = base::hash_of(std::filesystem::path(path).filename().string());
  const bool held = static_cast<double>(hash % kParts) < options.held_out * double{kParts};
  return held == (options.subset == Subset::test);
}

/// The box is chosen on the image as it is stored, which is then decoded no larger than needed.
void write_box(const std::string& path, std::span<const std::uint8_t> bytes,
               const ImageSize& stored, const Box& box, bool flip, int size, const ByteScale& scale,
               float* to) {
  const int side = std::min(stored.width, stored.height);
  const double needed = std::min(1.0, size / std::min(box.width, box.height));
  const Image image = decode_image(path, bytes, static_cast<int>(std::ceil(needed * side)));
  const double across = static_cast<double>(image.width) / stored.width;
  const double down = static_cast<double>(image.height) / stored.height;
  write_resized(image, {box.left * across, box.top * down, box.width * across, box.height * down},
                size, flip, scale, to);
}

}  // namespace

struct ImageFolder::Broken {
  std::mutex mutex;
  std::set<std::int64_t> told;  // guarded by mutex
};

Normalisation imagenet_normalisation() {
  return {.mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}};
}

ImageFolder::ImageFolder(const std::string& folder, const ImageFolderOptions& options)
    : options_(options), broken_(std::make_shared<Broken>()), scale_(options.normalisation, 3) {
  constexpr int kMostSide = 8192;
  if (options.size < 1 || options.size > kMostSide)
    throw ConfigError("ImageFolder: a size of 1 to 8192 is needed, not " +
                      std::to_string(options.size));
  if (!(options.centre > 0 && options.centre <= 1))
    throw ConfigError("ImageFolder: centre is a part of the image, above 0 and at most 1");
  std::vector<File> files;
  for (ClassFolder& found : list_classes(folder, &ignored_)) {
    const auto label = static_cast<std::int64_t>(classes_.size());
    for (std::string& file : found.files)
      if (belongs(file, options)) files.push_back({std::move(file), label});
    classes_.push_back(std::move(found.name));
  }
  files_ = std::make_shared<const std::vector<File>>(std::move(files));
}

std::vector<std::int64_t> ImageFolder::counts() const {
  std::vector<std::int64_t> result(classes_.size());
  for (const File& file : *files_) ++result[to_size(file.label)];
  return result;
}

torch::Tensor seen_middle(const std::string& path, std::span<const std::uint8_t> bytes,
                          const ImageFolderOptions& options) {
  const ImageSize stored = image_size(path, bytes);
  torch::Tensor seen = torch::empty({3, options.size, options.size});
  write_box(path, bytes, stored, centre_box(stored.width, stored.height, options.centre), false,
            options.size, ByteScale(options.normalisation, 3), seen.mutable_data_ptr<float>());
  return seen;
}

void ImageFolder::write(std::int64_t epoch, std::int64_t index, float* to) const {
  const std::string& path = file(index);
  const std::vector<std::uint8_t> bytes = base::read_bytes(path, kMostBytes);
  const ImageSize stored = image_size(path, bytes);
  Box box = centre_box(stored.width, stored.height, options_.centre);
  bool flip = false;
  if (options_.augment) {
    KeyedRandom random(options_.seed, epoch, index);
    box = random_box(stored.width, stored.height, random);
    flip = random.coin();
  }
  write_box(path, bytes, stored, box, flip, options_.size, scale_, to);
}

/// The number of the image that was written; -1: none, as OnBroken::leave_out says.
std::int64_t ImageFolder::write_readable(std::int64_t epoch, std::int64_t index, float* to) const {
  for (std::int64_t tried = 0;; ++tried) {
    const std::int64_t number = (index + tried) % size();
    try {
      write(epoch, number, to);
      return number;
    } catch (const CorruptFile& problem) {
      if (options_.on_broken == OnBroken::refuse || tried + 1 == size()) throw;
      const std::lock_guard guard(broken_->mutex);
      if (broken_->told.insert(number).second && options_.tell) options_.tell(problem.what());
    }
    if (options_.on_broken == OnBroken::leave_out) return -1;
  }
}

torch::data::Example<> ImageFolder::gather(std::int64_t epoch,
                                           std::span<const std::int64_t> indices) const {
  const auto count = static_cast<std::int64_t>(indices.size());
  const std::int64_t side = options_.size;
  torch::data::Example<> batch{torch::empty({count, 3, side, side}),
                               torch::empty({count}, torch::kInt64)};
  auto* data = batch.data.mutable_data_ptr<float>();
  auto* target = batch.target.mutable_data_ptr<std::int64_t>();
  std::int64_t rows = 0;
  for (const std::int64_t index : indices) {
    check(0 <= index && index < size(), "ImageFolder: there is no image of that number");
    const std::int64_t number = write_readable(epoch, index, data);
    if (number < 0) continue;
    data += 3 * side * side;
    target[rows++] = label(number);
  }
  if (rows == count) return batch;
  return {batch.data.narrow(0, 0, rows), batch.target.narrow(0, 0, rows)};
}

torch::data::Example<> ImageFolder::at(std::int64_t epoch, std::int64_t index) const {
  const torch::data::Example<> batch = gather(epoch, std::span(&index, 1));
  if (batch.data.size(0) == 0)
    throw ConfigError("ImageFolder: " + file(index) +
                      " is broken and left out, so it is no item of its own: ask for a batch.");
  return {batch.data[0], batch.target[0]};
}

}  // namespace lockstep::vision
