#pragma once

// Images and labels in IDX files, plain or gzipped: MNIST, Fashion-MNIST.

#include <lockstep/vision/image_set.h>
#include <torch/torch.h>

#include <string>

namespace lockstep::vision {

/// A tensor of bytes with the file's dimensions. Throws IoError or CorruptFile.
torch::Tensor read_idx(const std::string& path);

struct LabelledImages {
  torch::Tensor images;  ///< float32 [n, 1, height, width], from 0 to 1
  torch::Tensor labels;  ///< int64 [n]
};

/// Where Debian's package dataset-fashion-mnist puts it.
inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

/// Fashion-MNIST from `folder`. Throws ConfigError when there is no such folder.
LabelledImages fashion_mnist(Subset subset, const std::string& folder = kFashionMnistFolder);

/// The same as bytes, to train with.
ImageSet fashion_mnist_set(Subset subset, const std::string& folder = kFashionMnistFolder,
                           const ImageSetOptions& options = {});

/// Of the training images.
Normalisation fashion_mnist_normalisation();

}  // namespace lockstep::vision
