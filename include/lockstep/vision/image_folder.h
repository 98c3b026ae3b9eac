#pragma once

// A folder of JPEG and PNG images by class, as ImageNet is kept: folder/class/image.jpg.

#include <lockstep/vision/augment.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::vision {

/// Of ImageNet's training images: the usual choice for photographs.
Normalisation imagenet_normalisation();

struct ImageFolderOptions {
  int size = 224;          ///< height and width of what the model sees
  bool augment = false;    ///< random boxes, flipped half of the time; else the middle
  double centre = 0.875;   ///< the middle: part of the short side, 224 of 256
  std::uint64_t seed = 0;  ///< of the augmentation
  Normalisation normalisation = imagenet_normalisation();
};

/// A Source (see input/source.h) of Examples: float32 [3, size, size] and an int64 label. The
/// classes are the sub-folders, the items their files *.jpg, *.jpeg and *.png, both sorted by name;
/// names that begin with a dot are left out. Files are read and decoded when asked for: fetch
/// ahead with several workers. Copies share the list of files.
class ImageFolder {
 public:
  /// Throws ConfigError when there are no classes or one of them has no images; IoError when a
  /// folder cannot be read.
  explicit ImageFolder(const std::string& folder, const ImageFolderOptions& options = {});

  std::int64_t size() const { return static_cast<std::int64_t>(files_->size()); }
  /// Throw IoError or CorruptFile, with the file's name.
  torch::data::Example<> at(std::int64_t epoch, std::int64_t index) const;
  torch::data::Example<> gather(std::int64_t epoch, std::span<const std::int64_t> indices) const;

  const std::vector<std::string>& classes() const { return classes_; }
  std::vector<std::int64_t> counts() const;  ///< images by class
  const std::string& file(std::int64_t index) const { return (*files_)[to_size(index)].path; }
  std::int64_t label(std::int64_t index) const { return (*files_)[to_size(index)].label; }

 private:
  struct File {
    std::string path;
    std::int64_t label;
  };

  static std::size_t to_size(std::int64_t index) { return static_cast<std::size_t>(index); }
  void write(std::int64_t epoch, std::int64_t index, float* to) const;

  ImageFolderOptions options_;
  ByteScale scale_;
  std::vector<std::string> classes_;
  std::shared_ptr<const std::vector<File>> files_;
};

}  // namespace lockstep::vision
