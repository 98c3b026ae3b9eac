#include "sim/views.h"

#include "sim/allocator.h"

#include <c10/core/CPUAllocator.h>
#include <lockstep/error.h>

#include <cstring>

namespace lockstep::sim {
namespace {

using Bytes_t = c10::Storage::use_byte_size_t;

at::Tensor make(c10::Storage storage, c10::DispatchKey key, caffe2::TypeMeta dtype,
                at::IntArrayRef sizes, at::IntArrayRef strides, std::int64_t offset) {
  auto tensor =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

c10::Device sim_device(int device) { return {kDeviceType, static_cast<c10::DeviceIndex>(device)}; }

/// Takes the bytes out of a CPU storage, as the device's.
c10::DataPtr take_bytes(const c10::Storage& cpu, int device) {
  c10::StorageImpl* impl = cpu.unsafeGetStorageImpl();
  const Allocation* memory = allocation_of(impl->data_ptr());
  if (cpu.nbytes() == 0) return {nullptr, sim_device(device)};
  if (memory && memory->device == device) {
    c10::DataPtr bytes = impl->set_data_ptr(c10::DataPtr());
    bytes.unsafe_set_device(sim_device(device));
    return bytes;
  }
  c10::DataPtr bytes = allocate_on(device, cpu.nbytes(), sim_device(device));
  std::memcpy(bytes.get(), cpu.data(), cpu.nbytes());
  return bytes;
}

}  // namespace

at::Tensor make_tensor(c10::Storage storage, caffe2::TypeMeta dtype, at::IntArrayRef sizes,
                       at::IntArrayRef strides, std::int64_t offset) {
  return make(std::move(storage), c10::DispatchKey::PrivateUse1, dtype, sizes, strides, offset);
}

c10::Storage adopt(const c10::Storage& cpu, int device) {
  const std::size_t bytes = cpu.nbytes();
  return {Bytes_t(), bytes, take_bytes(cpu, device), device_allocator(), true};
}

const c10::Storage* Views::cpu_storage_of(const c10::Storage& sim) const {
  for (const Bytes& bytes : storages_)
    if (bytes.sim.unsafeGetStorageImpl() == sim.unsafeGetStorageImpl()) return &bytes.cpu;
  return nullptr;
}

at::Tensor Views::of(const at::Tensor& tensor) {
  for (const Argument& argument : arguments_)
    if (argument.sim.is_same(tensor)) return argument.cpu;
  const c10::Storage& sim = tensor.storage();
  const c10::Storage* shared = cpu_storage_of(sim);
  const c10::Storage cpu =
      shared ? *shared
             : c10::Storage(Bytes_t(), sim.nbytes(),
                            c10::DataPtr(const_cast<void*>(sim.data()), c10::Device(c10::kCPU)),
                            c10::GetCPUAllocator(), true);
  if (!shared) storages_.push_back({sim, cpu});
  arguments_.push_back({tensor, make(cpu, c10::DispatchKey::CPU, tensor.dtype(), tensor.sizes(),
                                     tensor.strides(), tensor.storage_offset())});
  at::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (impl->is_wrapped_number())
    arguments_.back().cpu.unsafeGetTensorImpl()->set_wrapped_number(true);
  return arguments_.back().cpu;
}

at::Tensor Views::back(const at::Tensor& cpu) {
  if (!cpu.defined()) return cpu;
  for (const Argument& argument : arguments_)
    if (argument.cpu.is_same(cpu)) return argument.sim;
  if (cpu.layout() != c10::kStrided || cpu.is_quantized())
    throw ConfigError(c10::str("a simulated device has dense tensors only, not ", cpu.layout(), " ",
                               cpu.dtype(), "; use a dense one."));
  const c10::Storage& bytes = cpu.storage();
  for (const Bytes& known : storages_)
    if (known.cpu.unsafeGetStorageImpl() == bytes.unsafeGetStorageImpl())
      return make_tensor(known.sim, cpu.dtype(), cpu.sizes(), cpu.strides(), cpu.storage_offset());
  storages_.push_back({adopt(bytes, device_), bytes});
  return make_tensor(storages_.back().sim, cpu.dtype(), cpu.sizes(), cpu.strides(),
                     cpu.storage_offset());
}

void Views::apply_resizes() {
  for (const Bytes& bytes : storages_) {
    if (bytes.cpu.data() == bytes.sim.data() && bytes.cpu.nbytes() == bytes.sim.nbytes()) continue;
    const std::size_t count = bytes.cpu.nbytes();
    bytes.sim.unsafeGetStorageImpl()->set_data_ptr(take_bytes(bytes.cpu, device_));
    bytes.sim.unsafeGetStorageImpl()->set_nbytes(count);
  }
  for (const Argument& argument : arguments_) {
    const at::Tensor& cpu = argument.cpu;
    if (cpu.sizes() == argument.sim.sizes() && cpu.strides() == argument.sim.strides()) continue;
    argument.sim.unsafeGetTensorImpl()->set_sizes_and_strides(cpu.sizes(), cpu.strides(),
                                                              cpu.storage_offset());
  }
}

}  // namespace lockstep::sim
