#include "gpu/backend.h"

#include <ATen/Context.h>
#include <lockstep/gpu.h>

#include <cstdlib>
#include <mutex>

#include "gpu/cuda.h"

namespace lockstep::gpu {
namespace {

class GpuBackend : public device::Backend {
 public:
  c10::DeviceType type() const override { return c10::kCUDA; }
  int count() const override { return cuda_facts().gpus; }

  void prepare(int index) override {
    usage(index);  // throws when it is not there
    ask_for_determinism();
    install();
  }

  void limit_memory(int index, double fraction, std::int64_t bytes) override {
    if (fraction > 0) limit_memory_fraction(index, fraction);
    if (bytes > 0) limit_memory_bytes(index, bytes);
  }
  device::MemoryUse memory(int index) const override {
    const Usage used = usage(index);
    return {used.bytes, used.peak_bytes};
  }
  void reset_peak(int index) override { gpu::reset_peak(index); }
};

}  // namespace

device::Backend& backend() {
  static GpuBackend instance;
  return instance;
}

void ask_for_determinism() {
  static std::once_flag once;
  std::call_once(once, [] {
    // cuBLAS reads it when CUDA starts: a workspace of a fixed size, with which it repeats exactly.
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    at::Context& context = at::globalContext();
    // Not warn_only: with it fused attention stays as it is.
    context.setDeterministicAlgorithms(true, /*warn_only=*/false);
    context.setDeterministicFillUninitializedMemory(false);
    context.setDeterministicCuDNN(true);
    context.setBenchmarkCuDNN(false);
  });
}

}  // namespace lockstep::gpu
