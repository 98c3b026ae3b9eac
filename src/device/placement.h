#pragma once

// Soft placement: an operator that a device has no kernel for runs on the CPU. What the public
// header lockstep/placement.h promises, for the backends that need it.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::device {

/// Runs `op` on the CPU for the device of its arguments. Tensors are copied there, results copied
/// back; a tensor that the operator writes to gets its new contents and is itself the result. A
/// generator of the device is replaced by one of the CPU: the scope's, see RandomScope. Counted for
/// lockstep::fallbacks(). Throws ConfigError in strict placement and for views, which cannot be
/// copied. Any thread.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& reason);

/// Notes the named tensors among the arguments of `op`: a backend that sees every operator calls
/// it, so that a later fallback without a parameter can tell where in the model it is.
void note_arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

/// The names of tensors, parameters as a rule, that fallbacks are reported with. A tensor is known
/// by its device and memory, views of it included, while this object lives.
class TensorNames {
 public:
  TensorNames() = default;
  ~TensorNames();
  TensorNames(const TensorNames&) = delete;
  TensorNames& operator=(const TensorNames&) = delete;

  /// Memory of the CPU and tensors without memory are passed over.
  void name(const torch::Tensor& tensor, const std::string& name);

 private:
  std::vector<std::uintptr_t> begins_;
};

}  // namespace lockstep::device
