#pragma once

// Images and labels in IDX files, plain or gzipped: MNIST, Fashion-MNIST.

#include <torch/torch.h>

#include <string>

namespace lockstep {

/// A tensor of bytes with the file's dimensions. Throws IoError or CorruptFile.
torch::Tensor read_idx(const std::string& path);

struct LabelledImages {
  torch::Tensor images;  ///< float32 [n, 1, height, width], from 0 to 1
  torch::Tensor labels;  ///< int64 [n]
};

enum class Subset { train, test };

/// Fashion-MNIST from `folder`, by default where Debian's package dataset-fashion-mnist puts it.
LabelledImages fashion_mnist(Subset subset,
                             const std::string& folder = "/usr/share/datasets/fashion-mnist");

}  // namespace lockstep
