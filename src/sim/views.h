#pragma once

// One operator's tensors, as CPU tensors over the same bytes.

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::sim {

/// A dense tensor of a simulated device over `storage`, which is there already.
at::Tensor make_tensor(c10::Storage storage, caffe2::TypeMeta dtype, at::IntArrayRef sizes,
                       at::IntArrayRef strides, std::int64_t offset);

/// Moves the bytes of a CPU storage that was allocated in a KernelScope to the device `device`;
/// bytes from elsewhere are copied. Returns the device's storage.
c10::Storage adopt(const c10::Storage& cpu, int device);

/// The CPU views of an operator's arguments, and the way back. Lives for one call.
class Views {
 public:
  explicit Views(int device) : device_(device) {}

  /// A CPU tensor over the bytes of `tensor`. Arguments that share a storage share one here too.
  at::Tensor of(const at::Tensor& tensor);

  /// What a kernel returned, as a tensor of the device: an argument is itself, what aliases an
  /// argument shares its storage, anything else is adopted.
  at::Tensor back(const at::Tensor& cpu);

  /// Gives arguments that the kernel resized their new size and memory, in place.
  void apply_resizes();

 private:
  struct Argument {
    at::Tensor sim, cpu;
  };
  struct Bytes {
    c10::Storage sim, cpu;
  };
  const c10::Storage* cpu_storage_of(const c10::Storage& sim) const;

  int device_;
  std::vector<Argument> arguments_;
  std::vector<Bytes> storages_;
};

}  // namespace lockstep::sim
