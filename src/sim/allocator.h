#pragma once

// The allocators that LibTorch sees.

#include "sim/machine.h"

#include <c10/core/Allocator.h>

namespace lockstep::sim {

/// While it lives, what this thread allocates as CPU memory is memory of the launch's device: the
/// results of the CPU kernel that runs inside.
class KernelScope {
 public:
  explicit KernelScope(const Launch& launch);
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  const Launch* outer_;
};

/// Memory of a device, as CPU memory or as its own.
c10::DataPtr allocate_on(int device, std::size_t bytes, c10::Device as);

c10::Allocator* device_allocator();  ///< of the current device
c10::Allocator* pinned_allocator();

/// Puts an allocator before the CPU's that passes all but KernelScopes through.
void install_cpu_allocator();

}  // namespace lockstep::sim
