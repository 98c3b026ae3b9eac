#pragma once

#include <lockstep/lockstep.h>
#include <lockstep/nn/ssd.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace bench {

/// The library's detector as a workload: SSD on MobileNet-v2, two classes, random boxes. See
/// workloads.h for what a workload is.
struct Ssd : lockstep::nn::Ssd {
  static constexpr std::int64_t kGlobalBatch = 16;
  /// Images; boxes (rows, things, 4): top, left, bottom, right as parts of the image; labels (rows,
  /// things), -1 where an image has fewer things.
  using Batch = std::tuple<torch::Tensor, torch::Tensor, torch::Tensor>;

  Ssd();
  /// Matches boxes with anchors here, inside the step, because the peers do. In a training the
  /// workers that read images do that ahead of the step.
  lockstep::Loss loss(const Batch& batch);
  void fill();

  static std::vector<Batch> batches();
  static lockstep::MirroredOptions options();
};

}  // namespace bench
