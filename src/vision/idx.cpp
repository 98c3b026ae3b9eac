#include <lockstep/error.h>
#include <lockstep/vision/idx.h>

#include <filesystem>

#include "vision/idx_reader.h"

namespace lockstep::vision {
namespace {

/// The file as it is published, or unpacked.
std::string packed_or_plain(const std::string& path) {
  return !std::filesystem::exists(path + ".gz") && std::filesystem::exists(path) ? path
                                                                                 : path + ".gz";
}

/// Images [n, 1, height, width] and labels [n], both bytes.
std::pair<torch::Tensor, torch::Tensor> read_fashion_mnist(Subset subset,
                                                           const std::string& folder) {
  if (!std::filesystem::is_directory(folder))
    throw ConfigError("Fashion-MNIST was looked for in " + folder +
                      ", which is not a folder: install Debian's package dataset-fashion-mnist, "
                      "which puts it into " +
                      kFashionMnistFolder + ", or name the folder where its four files are");
  const std::string stem = folder + (subset == Subset::train ? "/train" : "/t10k");
  const std::string images_path = packed_or_plain(stem + "-images-idx3-ubyte");
  const std::string labels_path = packed_or_plain(stem + "-labels-idx1-ubyte");
  const torch::Tensor images = read_idx(images_path), labels = read_idx(labels_path);
  if (images.dim() != 3) throw CorruptFile(images_path, 3, "three dimensions");
  if (labels.dim() != 1 || labels.size(0) != images.size(0))
    throw CorruptFile(labels_path, 4, std::to_string(images.size(0)) + " labels, one an image");
  constexpr int kClasses = 10;
  const auto* label = labels.const_data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < labels.size(0); ++i)
    if (label[i] >= kClasses)
      throw CorruptFile(labels_path, static_cast<std::uint64_t>(8 + i),
                        "a label from 0 to 9, not " + std::to_string(label[i]));
  return {images.unsqueeze(1), labels};
}

}  // namespace

torch::Tensor read_idx(const std::string& path) {
  auto content = std::make_unique<IdxContent>(read_idx_content(path));
  std::uint8_t* bytes = content->bytes.data();
  if (content->bytes.empty()) return torch::empty(content->sizes, torch::kUInt8);
  const std::vector<std::int64_t> sizes = content->sizes;
  return torch::from_blob(
      bytes, sizes, [own = std::shared_ptr(std::move(content))](void*) {}, torch::kUInt8);
}

LabelledImages fashion_mnist(Subset subset, const std::string& folder) {
  const auto [images, labels] = read_fashion_mnist(subset, folder);
  return {images.to(torch::kFloat32).div_(255), labels.to(torch::kInt64)};
}

ImageSet fashion_mnist_set(Subset subset, const std::string& folder,
                           const ImageSetOptions& options) {
  const auto [images, labels] = read_fashion_mnist(subset, folder);
  return {images,
          labels.to(torch::kInt64),
          {"T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag",
           "ankle boot"},
          options};
}

Normalisation fashion_mnist_normalisation() { return {.mean = {0.2860}, .deviation = {0.3530}}; }

}  // namespace lockstep::vision
