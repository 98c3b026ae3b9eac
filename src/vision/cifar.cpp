#include <lockstep/error.h>
#include <lockstep/vision/cifar.h>

#include <filesystem>
#include <memory>

#include "vision/cifar_reader.h"

namespace lockstep::vision {
namespace {

std::string file_of(const std::string& folder, const std::string& name) {
  return folder + "/" + name + ".bin";
}

/// data_batch_1 and those that follow.
std::vector<std::string> training_names(const std::string& folder) {
  constexpr int kMostFiles = 5;
  std::vector<std::string> names;
  int missing = 0;
  for (int i = 1; i <= kMostFiles; ++i) {
    const std::string name = "data_batch_" + std::to_string(i);
    const bool there = i == 1 || std::filesystem::exists(file_of(folder, name));
    if (there && missing > 0)
      throw ConfigError("CIFAR-10: " + folder + " has " + name + ".bin, but no data_batch_" +
                        std::to_string(missing) +
                        ".bin: put it there, or number the files "
                        "without a gap");
    if (there)
      names.push_back(name);
    else if (missing == 0)
      missing = i;
  }
  return names;
}

}  // namespace

ImageSet cifar10(Subset subset, const std::string& folder, const ImageSetOptions& options,
                 std::int64_t rows) {
  if (!std::filesystem::is_directory(folder))
    throw ConfigError("CIFAR-10 was looked for in " + folder +
                      ", which is not a folder: unpack its authors' cifar-10-binary.tar.gz, and "
                      "name the folder cifar-10-batches-bin");
  const std::vector<std::string> names =
      subset == Subset::test ? std::vector<std::string>{"test_batch"} : training_names(folder);
  auto content = std::make_shared<CifarRows>();
  for (const std::string& name : names) append_cifar_file(file_of(folder, name), rows, *content);
  const auto count = static_cast<std::int64_t>(content->labels.size());
  const auto labels = torch::from_blob(content->labels.data(), {count}, torch::kUInt8);
  const auto images = torch::from_blob(
      content->pixels.data(), {count, 3, 32, 32}, [content](void*) {}, torch::kUInt8);
  return {
      images,
      labels.to(torch::kInt64),
      {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"},
      options};
}

Normalisation cifar10_normalisation() {
  return {.mean = {0.4914, 0.4822, 0.4465}, .deviation = {0.2470, 0.2435, 0.2616}};
}

}  // namespace lockstep::vision
