#pragma once

// Labelled images of one size, kept in memory as bytes: MNIST, CIFAR.

#include <lockstep/vision/augment.h>
#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::vision {

enum class Subset { train, test };

struct ImageSetOptions {
  bool augment = false;    ///< shifted and flipped at random, differently in each epoch
  int padding = 4;         ///< of zeros, in pixels: how far an image is shifted at most
  std::uint64_t seed = 0;  ///< of the augmentation
  Normalisation normalisation = {};
};

/// A Source (see input/source.h) of Examples: float32 [channels, height, width] and an int64 label.
/// Batches are made in one pass over memory. Copies share the images.
class ImageSet {
 public:
  /// `images` are bytes [n, channels, height, width], `labels` int64 [n], numbers of `classes`.
  /// Throws ConfigError when they do not fit together.
  ImageSet(torch::Tensor images, torch::Tensor labels, std::vector<std::string> classes,
           const ImageSetOptions& options = {});

  std::int64_t size() const { return images_.size(0); }
  torch::data::Example<> at(std::int64_t epoch, std::int64_t index) const;
  torch::data::Example<> gather(std::int64_t epoch, std::span<const std::int64_t> indices) const;

  const std::vector<std::string>& classes() const { return classes_; }
  const torch::Tensor& images() const { return images_; }
  const torch::Tensor& labels() const { return labels_; }

 private:
  torch::Tensor images_;
  torch::Tensor labels_;
  std::vector<std::string> classes_;
  ImageSetOptions options_;
  ByteScale scale_;
};

}  // namespace lockstep::vision
