#pragma once

// Images whose channels are last as a matrix: a row a pixel. And rows in ranges and blocks, for
// loops over them.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

namespace lockstep::nn {

/// [rows, channels] of channels-last images, where a row is a pixel.
inline at::Tensor pixels(const at::Tensor& images) {
  return images.permute({0, 2, 3, 1}).view({-1, images.size(1)});
}

/// Rows in ranges that threads may share: as many as the shape says, so that threads change
/// nothing.
class RowRanges {
 public:
  explicit RowRanges(std::int64_t rows)
      : rows_(rows), count_(std::clamp<std::int64_t>(rows / kLeast, 1, kMost)) {}

  std::int64_t count() const { return count_; }

  /// Calls action(range, first row, rows), for several ranges at a time.
  template <class Action>
  void run(const Action& action) const {
    at::parallel_for(0, count_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t range = begin; range < end; ++range) {
        const std::int64_t first = rows_ * range / count_;
        action(range, first, rows_ * (range + 1) / count_ - first);
      }
    });
  }

 private:
  static constexpr std::int64_t kLeast = 1024, kMost = 8;

  std::int64_t rows_, count_;
};

/// Calls action(first row, rows) for as many rows at a time as stay in the second cache.
template <class Action>
void for_row_blocks(std::int64_t first, std::int64_t rows, std::int64_t row_size,
                    const Action& action) {
  constexpr std::int64_t kNumbers = 1 << 16, kLeast = 96;
  const std::int64_t step = std::max(kNumbers / row_size, kLeast);
  for (std::int64_t done = 0; done < rows; done += step)
    action(first + done, std::min(step, rows - done));
}

/// Two sums a channel, which every range adds up for itself.
class PairSums {
 public:
  PairSums(const RowRanges& ranges, std::int64_t channels)
      : sums_(at::zeros({ranges.count(), 2, channels}, at::kDouble)) {}

  double* first(std::int64_t range) const { return place(range, 0); }
  double* second(std::int64_t range) const { return place(range, 1); }
  at::Tensor total() const { return sums_.sum(0); }  ///< [2, channels]

 private:
  double* place(std::int64_t range, std::int64_t which) const {
    return sums_.mutable_data_ptr<double>() + (2 * range + which) * sums_.size(2);
  }

  at::Tensor sums_;
};

}  // namespace lockstep::nn
