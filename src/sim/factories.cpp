#include "sim/allocator.h"
#include "sim/kernels.h"
#include "sim/views.h"

#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>

namespace lockstep::sim {
namespace {

c10::Device resolved(std::optional<c10::Device> device) {
  if (device && device->has_index()) return *device;
  return {kDeviceType, static_cast<c10::DeviceIndex>(Machine::instance().current_device())};
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(resolved(device));
  return at::detail::empty_generic(size, device_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(resolved(device));
  return at::detail::empty_strided_generic(size, stride, device_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size,
                          std::optional<at::MemoryFormat> format) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  const std::size_t bytes = at::detail::computeStorageNbytesContiguous(
      size, self.itemsize(), static_cast<std::size_t>(self.storage_offset()));
  if (self.numel() > 0 && bytes > self.storage().nbytes())
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), bytes);
  if (format) impl->empty_tensor_restride(*format);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, std::int64_t offset,
                        at::IntArrayRef size, at::IntArrayRef stride) {
  TORCH_CHECK(source.device() == self.device(), "set_: the storage is on ", source.device(),
              ", the tensor on ", self.device());
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  if (stride.empty() && !size.empty()) {
    impl->set_storage_offset(offset);
    impl->set_sizes_contiguous(size);
  } else {
    impl->set_sizes_and_strides(size, stride, offset);
  }
  return self;
}

/// As on CUDA, set_data may move a tensor to the CPU or back: Module::to and torch::load do.
bool may_take_data(const at::Tensor& self, const at::Tensor& from) {
  return self.layout() == c10::kStrided && from.layout() == c10::kStrided;
}

at::Tensor& set_(at::Tensor& self) {
  c10::Storage none(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, self.device()),
                    device_allocator(), true);
  return set_storage(self, std::move(none), 0, {0}, {});
}

}  // namespace

void register_factories(torch::Library& aten) {
  aten.impl("empty.memory_format", TORCH_FN(empty));
  aten.impl("empty_strided", TORCH_FN(empty_strided));
  aten.impl("resize_", TORCH_FN(resize_));
  aten.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  aten.impl("set_.source_Storage",
            TORCH_FN((static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(at::native::set_))));
  aten.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  aten.impl("set_", TORCH_FN(set_));
  aten.impl("_has_compatible_shallow_copy_type", TORCH_FN(may_take_data));
  aten.impl("view", TORCH_FN(at::native::view));
  aten.impl("_unsafe_view", TORCH_FN(at::native::_unsafe_view));
  aten.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  aten.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  aten.impl("unfold", TORCH_FN(at::native::unfold));
  aten.impl("alias", TORCH_FN(at::native::alias));
}

}  // namespace lockstep::sim
