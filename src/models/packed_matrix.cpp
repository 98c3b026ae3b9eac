#include "packed_matrix.h"

#include <ATen/Parallel.h>
#include <lockstep/error.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define LOCKSTEP_WIDE
#endif

namespace lockstep {
namespace {

constexpr std::int64_t kVector = 8, kPanel = 2 * kVector;  // floats, columns
// A tile of 6 rows and a panel's columns is 12 registers of sums.
constexpr std::int64_t kTileRows = 6;
// Inner elements at a time: that much of a panel and of a tile's rows stays in the first cache.
constexpr std::int64_t kInner = 256;
constexpr std::int64_t kPanelGrain = 8;  // panels that are worth a thread
// With more rows LibTorch's product is as fast.
constexpr std::int64_t kMostRows = 96;

/// A part of the product: [rows, inner] and a part of a panel.
struct Part {
  const float* left;
  std::int64_t left_stride, inner;
  const float* panel;
  float* into;
  std::int64_t into_stride;
  bool add;
};

#ifdef LOCKSTEP_WIDE
#pragma GCC push_options
#pragma GCC target("avx2,fma")

using Floats = float __attribute__((vector_size(kVector * sizeof(float))));

inline Floats load(const float* from) {
  Floats values;
  std::memcpy(&values, from, sizeof values);
  return values;
}

inline void store(float* into, const Floats& values) { std::memcpy(into, &values, sizeof values); }

template <int rows>
void multiply_tile(const Part& part) {
  Floats low[rows] = {}, high[rows] = {};  // plain arrays: the compiler keeps them in registers
  if (part.add)
    for (int row = 0; row < rows; ++row) {
      low[row] = load(part.into + row * part.into_stride);
      high[row] = load(part.into + row * part.into_stride + kVector);
    }
  for (std::int64_t i = 0; i < part.inner; ++i) {
    const Floats right_low = load(part.panel + i * kPanel);
    const Floats right_high = load(part.panel + i * kPanel + kVector);
    for (int row = 0; row < rows; ++row) {
      const float left = part.left[row * part.left_stride + i];
      low[row] += left * right_low;
      high[row] += left * right_high;
    }
  }
  for (int row = 0; row < rows; ++row) {
    store(part.into + row * part.into_stride, low[row]);
    store(part.into + row * part.into_stride + kVector, high[row]);
  }
}

#pragma GCC pop_options

bool can_multiply() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

#else

template <int rows>
void multiply_tile(const Part&) {}

bool can_multiply() { return false; }

#endif

void multiply_rows(std::int64_t rows, const Part& part) {
  switch (rows) {
    case 1:
      return multiply_tile<1>(part);
    case 2:
      return multiply_tile<2>(part);
    case 3:
      return multiply_tile<3>(part);
    case 4:
      return multiply_tile<4>(part);
    case 5:
      return multiply_tile<5>(part);
    default:
      return multiply_tile<kTileRows>(part);
  }
}

/// All rows with one panel, whose columns are all in the result.
void multiply_panel(std::int64_t rows, const Part& whole) {
  const std::int64_t inner = whole.inner;
  const std::int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (std::int64_t k = 0; k < inner; k += kInner) {
    std::int64_t row = 0;
    for (std::int64_t tile = 0; tile < tiles; ++tile) {  // of about as many rows each
      const std::int64_t end = rows * (tile + 1) / tiles;
      multiply_rows(end - row, {.left = whole.left + row * whole.left_stride + k,
                                .left_stride = whole.left_stride,
                                .inner = std::min(kInner, inner - k),
                                .panel = whole.panel + k * kPanel,
                                .into = whole.into + row * whole.into_stride,
                                .into_stride = whole.into_stride,
                                .add = whole.add || k > 0});
      row = end;
    }
  }
}

/// With a panel of which only `columns` are in the result: beside it.
void multiply_last_panel(std::int64_t rows, std::int64_t columns, Part part) {
  std::vector<float> whole(static_cast<std::size_t>(rows * kPanel));
  const auto bytes = static_cast<std::size_t>(columns) * sizeof(float);
  float* const into = std::exchange(part.into, whole.data());
  const std::int64_t stride = std::exchange(part.into_stride, kPanel);
  for (std::int64_t row = 0; row < rows; ++row)
    std::memcpy(part.into + row * kPanel, into + row * stride, bytes);
  multiply_panel(rows, part);
  for (std::int64_t row = 0; row < rows; ++row)
    std::memcpy(into + row * stride, part.into + row * kPanel, bytes);
}

/// [inner, columns] to [panels, inner, kPanel].
at::Tensor packed(const at::Tensor& matrix) {
  const std::int64_t inner = matrix.size(0), columns = matrix.size(1);
  const std::int64_t panels = (columns + kPanel - 1) / kPanel, whole = columns / kPanel;
  at::Tensor result = at::empty({panels, inner, kPanel}, matrix.options());
  result.narrow(0, 0, whole)
      .copy_(matrix.narrow(1, 0, whole * kPanel).unflatten(1, {whole, kPanel}).transpose(0, 1));
  if (panels == whole) return result;
  const std::int64_t rest = columns - whole * kPanel;
  result[whole].zero_().narrow(1, 0, rest).copy_(matrix.narrow(1, whole * kPanel, rest));
  return result;
}

}  // namespace

PackedMatrix::PackedMatrix(const at::Tensor& matrix, std::int64_t rows) : matrix_(matrix) {
  check(matrix.dim() == 2, "a matrix has rows and columns");
  const bool fits = matrix.is_cpu() && matrix.scalar_type() == at::kFloat && matrix.numel() > 0;
  if (fits && rows <= kMostRows && can_multiply()) panels_ = packed(matrix);
}

void PackedMatrix::product(const at::Tensor& left, const at::Tensor& into) const {
  multiply(left, into, /*add=*/false);
}

void PackedMatrix::add_product(const at::Tensor& left, const at::Tensor& into) const {
  multiply(left, into, /*add=*/true);
}

void PackedMatrix::multiply(const at::Tensor& left, const at::Tensor& into, bool add) const {
  if (!panels_.defined()) {
    into.addmm_(left, matrix_, /*beta=*/add);
    return;
  }
  const std::int64_t rows = into.size(0), columns = matrix_.size(1), inner = matrix_.size(0);
  check(left.dim() == 2 && left.size(0) == rows && left.size(1) == inner &&
            into.size(1) == columns && left.scalar_type() == at::kFloat &&
            into.scalar_type() == at::kFloat && into.stride(1) == 1,
        "the rows, the matrix and the result of a product belong together");
  const at::Tensor rows_of = left.stride(1) == 1 ? left : left.contiguous();
  const float* panels = panels_.const_data_ptr<float>();
  const Part part{.left = rows_of.const_data_ptr<float>(),
                  .left_stride = rows_of.stride(0),
                  .inner = inner,
                  .panel = nullptr,
                  .into = into.mutable_data_ptr<float>(),
                  .into_stride = into.stride(0),
                  .add = add};
  // Threads share panels, not sums.
  at::parallel_for(0, panels_.size(0), kPanelGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      Part own = part;
      own.panel = panels + panel * inner * kPanel;
      own.into += panel * kPanel;
      const std::int64_t there = columns - panel * kPanel;
      if (there >= kPanel)
        multiply_panel(rows, own);
      else
        multiply_last_panel(rows, there, own);
    }
  });
}

}  // namespace lockstep
