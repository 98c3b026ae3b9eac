#pragma once

// Products of matrices in an unchanged model, such as those of torch::nn::Linear, by loops of our
// own. See "Note: own products" in docs/notes.md.

#include <ATen/ATen.h>

namespace lockstep::kernels {

/// Registers kernels for aten::mm and aten::addmm under `key`, for as long as the process lives: to
/// be called once. A thread that includes the key has its products of float32 matrices on the CPU
/// made by kernels::product, where that is faster; all others stay LibTorch's.
void install_model_products(c10::DispatchKey key);

/// What those kernels compute, without gradients.
at::Tensor model_mm(const at::Tensor& left, const at::Tensor& right);
at::Tensor model_addmm(const at::Tensor& bias, const at::Tensor& left, const at::Tensor& right,
                       const at::Scalar& beta, const at::Scalar& alpha);

}  // namespace lockstep::kernels
