#pragma once

// A device of one's own for tests: memory of the host that calls itself "maia:0", a device kind
// LibTorch knows and nobody has here. Every operator but a few runs on the CPU by run_on_cpu.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <vector>

#include "device/placement.h"

namespace lockstep::toy {

inline const c10::Device device(c10::kMAIA, 0);

struct Allocator : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr memory = c10::GetCPUAllocator()->allocate(bytes);
    memory.unsafe_set_device(device);
    return memory;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

/// A generator that calls itself the device's.
struct Generator : at::CPUGeneratorImpl {
  explicit Generator(std::uint64_t seed) : CPUGeneratorImpl(seed) { device_ = toy::device; }
};

inline at::Tensor empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> dtype,
                        std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>,
                        std::optional<c10::MemoryFormat> format) {
  static Allocator allocator;
  return at::detail::empty_generic(sizes, &allocator, c10::DispatchKeySet(c10::DispatchKey::MAIA),
                                   c10::dtype_or_default(dtype), format);
}

inline at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                                std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                                std::optional<c10::Device>, std::optional<bool>) {
  static Allocator allocator;
  return at::detail::empty_strided_generic(sizes, strides, &allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::MAIA),
                                           c10::dtype_or_default(dtype));
}

/// A tensor of the CPU over the same bytes.
inline at::Tensor bytes_of(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       tensor.options().device(c10::kCPU));
}

inline at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  bytes_of(to).copy_(bytes_of(from));
  return to;
}

inline void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  lockstep::device::run_on_cpu(op, stack, "the toy has no kernels");
}

struct Guard : c10::impl::NoOpDeviceGuardImpl<c10::kMAIA> {
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

/// LibTorch's backward engine asks for devices once, at the first backward pass of any test.
inline const c10::impl::DeviceGuardImplRegistrar guard(c10::kMAIA, new Guard);

/// Loads the kernels into LibTorch, once.
inline void install() {
  static const auto* libraries = [] {
    const auto key = c10::DispatchKey::MAIA;
    auto* result = new std::vector<torch::Library>;
    result->emplace_back(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
    result->back().fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
    result->emplace_back(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    result->back().impl("empty.memory_format", empty);
    result->back().impl("empty_strided", empty_strided);
    result->back().impl("_copy_from", copy_from);
    result->back().impl("as_strided", at::native::as_strided_tensorimpl);
    result->back().impl("view", at::native::view);
    result->back().impl("resize_", at::native::resize_);
    return result;
  }();
  (void)libraries;
}

}  // namespace lockstep::toy
