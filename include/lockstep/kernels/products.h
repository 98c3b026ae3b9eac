#pragma once

// Products of a matrix [rows, inner] and one [inner, columns], both in any memory order. In single
// precision on a CPU with wide vectors they are made by loops of our own, else by LibTorch. The
// number of threads does not change the result. Without gradients: for the forward and backward
// functions of an autograd::Function of your own.

#include <ATen/ATen.h>

#include <cstdint>

namespace lockstep::kernels {

at::Tensor product(const at::Tensor& left, const at::Tensor& right);

/// into = left right, or into += left right, in place. `into` is [rows, columns] with neighbouring
/// columns side by side.
void product_into(const at::Tensor& left, const at::Tensor& right, const at::Tensor& into);
void add_product(const at::Tensor& left, const at::Tensor& right, const at::Tensor& into);

/// A matrix that others are multiplied with again and again: laid out once in the order in which a
/// product reads it. With few rows that takes longer than the product itself.
class PackedMatrix {
 public:
  /// `matrix` must stay as it is.
  explicit PackedMatrix(const at::Tensor& matrix);

  void product_into(const at::Tensor& left, const at::Tensor& into) const;
  void add_product(const at::Tensor& left, const at::Tensor& into) const;

 private:
  void multiply(const at::Tensor& left, const at::Tensor& into, bool add) const;

  at::Tensor matrix_;
  at::Tensor panels_;  // a block of the inner side after the other; undefined: LibTorch's product
};

}  // namespace lockstep::kernels
