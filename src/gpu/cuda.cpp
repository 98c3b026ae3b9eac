#include "gpu/cuda.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>
#include <torch/library.h>

#include <cstdio>

#include "device/placement.h"

namespace lockstep::gpu {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

/// As nvidia-smi and CUDA_VISIBLE_DEVICES write it.
std::string text_of(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += hex;
  }
  return text;
}

/// The allocator knows a device only after LibTorch has started CUDA.
c10::DeviceIndex started(int number) {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  return static_cast<c10::DeviceIndex>(number);
}

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  device::run_on_cpu(op, stack, "CUDA has no kernel for it");
}

}  // namespace

CudaFacts cuda_facts() {
  CudaFacts facts{.built = true, .runtime = CUDART_VERSION};
  cudaDriverGetVersion(&facts.driver);
  const cudaError_t status = cudaGetDeviceCount(&facts.gpus);
  if (status == cudaSuccess) return facts;
  cudaGetLastError();  // or else LibTorch would meet it later
  facts.gpus = 0;
  facts.driver_too_old = facts.driver != 0 && status == cudaErrorInsufficientDriver;
  if (status != cudaErrorInsufficientDriver && status != cudaErrorNoDevice)
    facts.error = cudaGetErrorString(status);
  return facts;
}

Info cuda_info(int number) {
  cudaDeviceProp properties;
  char bus_id[32];
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, number));
  C10_CUDA_CHECK(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, number));
  return {.name = properties.name,
          .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
          .uuid = text_of(properties.uuid),
          .bus_id = bus_id};
}

void cuda_limit_memory(int number, double fraction) {
  allocator::setMemoryFraction(fraction, started(number));
}

Usage cuda_usage(int number) {
  const auto stats = allocator::getDeviceStats(started(number));
  const auto& bytes =
      stats.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  return {.bytes = bytes.current, .peak_bytes = bytes.peak};
}

void cuda_reset_peak(int number) { allocator::resetPeakStats(started(number)); }

void cuda_install_fallback() {
  static const torch::Library library = [] {
    torch::Library all(torch::Library::IMPL, "_", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    all.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
    return all;
  }();
}

}  // namespace lockstep::gpu
