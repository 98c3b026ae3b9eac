#pragma once

// A folder of JPEG and PNG images by class, as ImageNet is kept: folder/class/image.jpg.

#include <lockstep/vision/augment.h>
#include <lockstep/vision/image_file.h>
#include <lockstep/vision/image_set.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
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
  double held_out = 0;            ///< share of the images, by hash of their names, that only
  Subset subset = Subset::train;  ///< Subset::test has, and Subset::train has not; 0: both have all
  OnBroken on_broken = OnBroken::refuse;
  /// Told of each broken image once, on the thread that found it.
  std::function<void(const std::string& problem)> tell = {};
};

/// What a model sees of an image without augmentation: the middle of it, as float32 [3, size,
/// size]. `path` is for messages. Throws CorruptFile.
torch::Tensor seen_middle(const std::string& path, std::span<const std::uint8_t> bytes,
                          const ImageFolderOptions& options);

/// A Source (see input/source.h) of Examples: float32 [3, size, size] and an int64 label. The
/// classes are the sub-folders, the items their files *.jpg, *.jpeg and *.png, both sorted by name;
/// names that begin with a dot are left out. Files are read and decoded when asked for: fetch
/// ahead with several workers. A batch has fewer rows where broken images are left out. Copies
/// share the list of files.
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

  /// What is in the folder and is no image of a class, by what it is, with the number: {".gif
  /// files", 3}, {"folders inside of classes", 1}, {"files beside the classes", 2}.
  const std::map<std::string, std::int64_t>& ignored() const { return ignored_; }

 private:
  struct File {
    std::string path;
    std::int64_t label;
  };

  static std::size_t to_size(std::int64_t index) { return static_cast<std::size_t>(index); }
  struct Broken;

  void write(std::int64_t epoch, std::int64_t index, float* to) const;
  std::int64_t write_readable(std::int64_t epoch, std::int64_t index, float* to) const;

  ImageFolderOptions options_;
  std::map<std::string, std::int64_t> ignored_;
  std::shared_ptr<Broken> broken_;
  ByteScale scale_;
  std::vector<std::string> classes_;
  std::shared_ptr<const std::vector<File>> files_;
};

}  // namespace lockstep::vision
