#pragma once

// Pictures with boxes as batches for a detector, read and augmented when asked for.

#include <lockstep/vision/anchors.h>
#include <lockstep/vision/box_augment.h>
#include <lockstep/vision/box_set.h>
#include <lockstep/vision/image_folder.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace lockstep::vision {

struct DetectionBatch {
  torch::Tensor images;    ///< float32 [rows, 3, size, size], channels-last
  torch::Tensor labels;    ///< int64 [rows, anchors]: see Targets
  torch::Tensor codes;     ///< float32 [rows, anchors, 4]
  torch::Tensor pictures;  ///< int64 [rows]: the number of each picture in its set, -1: unreadable

  auto tensors() { return std::tie(images, labels, codes, pictures); }
};

struct BoxedPicturesOptions {
  int size = 300;           ///< height and width of what the model sees; the ratio is not kept
  BoxAugment augment = {};  ///< differently in each epoch
  std::uint64_t seed = 0;   ///< of the augmentation
  Normalisation normalisation = imagenet_normalisation();
  std::vector<Corners> anchors = {};
  MatchOptions matching = {};
  OnBroken on_broken = OnBroken::stand_in;  ///< one left out is a blank row, and its number is -1
  /// Told of each broken picture once, on the thread that found it.
  std::function<void(const std::string& problem)> tell = {};
};

/// A Source (see input/source.h) of batches with one row; `gather` makes larger ones. Fetch ahead
/// with several workers. Copies share the set.
class BoxedPictures {
 public:
  BoxedPictures(std::shared_ptr<const BoxSet> set, BoxedPicturesOptions options);

  std::int64_t size() const { return static_cast<std::int64_t>(set_->pictures.size()); }
  DetectionBatch at(std::int64_t epoch, std::int64_t index) const;
  DetectionBatch gather(std::int64_t epoch, std::span<const std::int64_t> indices) const;

  const BoxSet& set() const { return *set_; }

 private:
  struct Broken;

  std::int64_t write(std::int64_t epoch, std::int64_t index, float* image, SeenBoxes& seen) const;
  void write_picture(std::int64_t epoch, std::int64_t index, float* image, SeenBoxes& seen) const;

  std::shared_ptr<const BoxSet> set_;
  BoxedPicturesOptions options_;
  ByteScale scale_;
  std::shared_ptr<Broken> broken_;
};

/// The rows of a batch as a person can look at them: without the normalisation, with the boxes of
/// the anchors that belong to things.
std::vector<Image> shown(const DetectionBatch& batch, const BoxedPicturesOptions& options,
                         const std::vector<std::string>& classes);

}  // namespace lockstep::vision
