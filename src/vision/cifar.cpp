#include <lockstep/error.h>
#include <lockstep/vision/cifar.h>

#include <filesystem>
#include <memory>

#include "vision/cifar_reader.h"

namespace lockstep::vision {

ImageSet cifar10(Subset subset, const std::string& folder, const ImageSetOptions& options,
                 std::int64_t rows) {
  if (!std::filesystem::is_directory(folder))
    throw ConfigError("CIFAR-10 was looked for in " + folder +
                      ", which is not a folder: unpack its authors' cifar-10-binary.tar.gz, and "
                      "name the folder cifar-10-batches-bin");
  std::vector<std::string> names;
  if (subset == Subset::test) names = {"test_batch"};
  for (int i = 1; subset == Subset::train && i <= 5; ++i)
    names.push_back("data_batch_" + std::to_string(i));
  auto content = std::make_shared<CifarRows>();
  for (const std::string& name : names)
    append_cifar_file(folder + "/" + name + ".bin", rows, *content);
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
