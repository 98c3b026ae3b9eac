#pragma once

// Products of matrices in single precision on a CPU with wide vectors: laying out and the inner
// loops. See "Note: own products" in docs/notes.md.

#include <cstdint>
#include <vector>

namespace lockstep::kernels::products {

/// A matrix in memory, in any order: row i, column j is data[i * row_stride + j * column_stride].
struct Matrix {
  const float* data = nullptr;
  std::int64_t row_stride = 0, column_stride = 0;
};

/// The longest inner side of a block: as much of the rows of a tile stays in the first cache.
constexpr std::int64_t kMostInner = 512;

/// into = left right, or into += left right. `left` is [rows, inner], `right` [inner, columns] as
/// Loops::pack laid it out, `into` [rows, columns] with neighbouring columns side by side.
struct Block {
  Matrix left = {};
  const float* right = nullptr;
  float* into = nullptr;
  std::int64_t into_stride = 0;
  std::int64_t rows = 0, inner = 0, columns = 0;
  bool add = false;
};

struct Loops {
  std::int64_t panel = 0;  ///< columns that are laid out together
  /// `right`, [inner, columns], to [columns / panel, inner, panel], filled up with 0.
  void (*pack)(const Matrix& right, std::int64_t inner, std::int64_t columns, float* into);
  /// Each number is summed in the order of the inner side, whatever rows and columns are beside it.
  void (*multiply)(const Block& block);
};

/// Those that this machine can run, the widest first.
std::vector<const Loops*> all_loops();

/// The first of them; null: there are none.
const Loops* loops();

}  // namespace lockstep::kernels::products
