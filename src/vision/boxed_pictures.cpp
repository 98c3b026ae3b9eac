#include <lockstep/error.h>
#include <lockstep/vision/boxed_pictures.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>

#include "base/file.h"

namespace lockstep::vision {
namespace {

constexpr std::uint64_t kMostPictureBytes = std::uint64_t{256} << 20U;

/// So many pixels of the short side are needed that a view is not made larger than it has to be.
int needed_side(const ImageSize& stored, const View& view, int size) {
  const double factor = std::min(1.0, size / std::min(view.area.width, view.area.height));
  return static_cast<int>(std::ceil(factor * std::min(stored.width, stored.height)));
}

}  // namespace

struct BoxedPictures::Broken {
  std::mutex mutex;
  std::set<std::int64_t> told;  // guarded by mutex
};

BoxedPictures::BoxedPictures(std::shared_ptr<const BoxSet> set, BoxedPicturesOptions options)
    : set_(std::move(set)),
      options_(std::move(options)),
      scale_(options_.normalisation, 3),
      broken_(std::make_shared<Broken>()) {
  check(!options_.anchors.empty(), "BoxedPictures: anchors are needed");
}

/// The view is chosen on the picture as it is stored, which is then decoded no larger than needed.
void BoxedPictures::write_picture(std::int64_t epoch, std::int64_t index, float* image,
                                  SeenBoxes& seen) const {
  const BoxedPicture& picture = set_->pictures[static_cast<std::size_t>(index)];
  const std::vector<std::uint8_t> bytes = base::read_bytes(picture.path, kMostPictureBytes);
  KeyedRandom random(options_.seed, epoch, index);
  const View view = random_view(picture.size, picture.boxes, options_.augment, random);
  const Image decoded =
      decode_image(picture.path, bytes, needed_side(picture.size, view, options_.size));
  seen = seen_boxes(picture.boxes, view);
  write_view(decoded, picture.size, view, options_.size, scale_, image);
}

/// The number of the picture that was written; -1: none, as OnBroken::leave_out says.
std::int64_t BoxedPictures::write(std::int64_t epoch, std::int64_t index, float* image,
                                  SeenBoxes& seen) const {
  for (std::int64_t tried = 0;; ++tried) {
    const std::int64_t number = (index + tried) % size();
    try {
      write_picture(epoch, number, image, seen);
      return number;
    } catch (const CorruptFile& problem) {
      if (options_.on_broken == OnBroken::refuse || tried + 1 == size()) throw;
      const std::lock_guard guard(broken_->mutex);
      if (broken_->told.insert(number).second && options_.tell) options_.tell(problem.what());
    }
    if (options_.on_broken == OnBroken::leave_out) return -1;
  }
}

DetectionBatch BoxedPictures::gather(std::int64_t epoch,
                                     std::span<const std::int64_t> indices) const {
  const auto rows = static_cast<std::int64_t>(indices.size());
  const auto anchors = static_cast<std::int64_t>(options_.anchors.size());
  const std::int64_t side = options_.size;
  torch::Tensor images = torch::zeros({rows, 3, side, side});
  DetectionBatch batch{{},
                       torch::zeros({rows, anchors}, torch::kInt64),
                       torch::zeros({rows, anchors, 4}),
                       torch::empty({rows}, torch::kInt64)};
  for (std::int64_t row = 0; row < rows; ++row) {
    SeenBoxes seen;
    const std::int64_t number =
        write(epoch, indices[static_cast<std::size_t>(row)], images[row].data_ptr<float>(), seen);
    batch.pictures.data_ptr<std::int64_t>()[row] = number;
    if (number < 0) continue;
    const Targets targets =
        make_targets(options_.anchors, seen.things, seen.labels, options_.matching);
    std::ranges::copy(targets.labels, batch.labels[row].data_ptr<std::int64_t>());
    static_assert(sizeof(BoxCode) == 4 * sizeof(float));
    std::copy_n(targets.codes.data()->data(), 4 * anchors, batch.codes[row].data_ptr<float>());
  }
  batch.images = images.contiguous(at::MemoryFormat::ChannelsLast);
  return batch;
}

DetectionBatch BoxedPictures::at(std::int64_t epoch, std::int64_t index) const {
  return gather(epoch, std::span(&index, 1));
}

}  // namespace lockstep::vision
