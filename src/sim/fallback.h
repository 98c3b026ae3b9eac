#pragma once

// How a simulated device runs an operator: the CPU's kernel, at once, on CPU views of the same
// bytes.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace lockstep::sim {

/// Computes on a stack of CPU tensors.
using CpuKernel = void (*)(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Takes the operator's arguments from the stack, checks devices and order, runs `kernel` on CPU
/// views of them, and leaves the results on the stack, as tensors of the device.
void run(const c10::OperatorHandle& op, torch::jit::Stack* stack, CpuKernel kernel);

/// The boxed kernel of every operator that has none of its own here.
void run_cpu_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// A boxed kernel that computes with `kernel` in the CPU kernel's stead.
template <CpuKernel kernel>
void run_as(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  run(op, stack, kernel);
}

}  // namespace lockstep::sim
