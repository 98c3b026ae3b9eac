#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace lockstep {

/// A matrix that few rows at a time are multiplied with, again and again. On a CPU in single
/// precision it is laid out once in the order in which the product reads it, which LibTorch does
/// in every call: with 8 rows that is twice as fast, with 32 by a tenth or more. Else it is
/// LibTorch's product. The number of threads does not change the result.
class PackedMatrix {
 public:
  /// `matrix` [inner, columns], in any memory order, to multiply `rows` rows with. It must stay as
  /// it is.
  PackedMatrix(const at::Tensor& matrix, std::int64_t rows);

  /// into = left matrix, or into += left matrix; in place. `left` is [rows, inner], `into` [rows,
  /// columns] with neighbouring columns side by side.
  void product(const at::Tensor& left, const at::Tensor& into) const;
  void add_product(const at::Tensor& left, const at::Tensor& into) const;

 private:
  void multiply(const at::Tensor& left, const at::Tensor& into, bool add) const;

  at::Tensor matrix_;
  at::Tensor panels_;  // [columns / 16, inner, 16], filled up with 0; undefined: LibTorch's product
};

}  // namespace lockstep
