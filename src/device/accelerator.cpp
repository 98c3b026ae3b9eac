#include "device/accelerator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <lockstep/error.h>
#include <lockstep/gpu.h>
#include <lockstep/sim.h>

#include <chrono>
#include <cstdlib>
#include <mutex>

namespace lockstep::device {

c10::Device torch_device(const Device& device) {
  const auto index = static_cast<c10::DeviceIndex>(device.index);
  switch (device.kind) {
    case DeviceKind::cpu:
      return c10::Device(c10::kCPU);
    case DeviceKind::gpu:
      return c10::Device(c10::kCUDA, index);
    case DeviceKind::sim:
      return c10::Device(c10::kPrivateUse1, index);
  }
  return c10::Device(c10::kCPU);
}

void prepare(const Device& device) {
  if (device.kind == DeviceKind::cpu) return;
  if (device.kind == DeviceKind::gpu) {
    gpu::usage(device.index);  // throws when it is not there
    ask_for_determinism();
    return gpu::install();
  }
  sim::install();
  if (device.index >= sim::options().devices)
    throw ConfigError(device.name() + " is not there: the simulated machine has " +
                      std::to_string(sim::options().devices) +
                      " devices; ask for more with sim::configure() or LOCKSTEP_SIM.");
}

bool answers(const Device& device) try {
  const c10::Device place = torch_device(device);
  if (!place.is_cpu()) c10::impl::VirtualGuardImpl(place.type()).synchronizeDevice(place.index());
  return true;
} catch (const DeviceLost&) {
  return false;
} catch (const c10::AcceleratorError&) {
  return false;
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

at::Generator make_generator(const Device& device) {
  if (device.kind == DeviceKind::cpu) return at::make_generator<at::CPUGeneratorImpl>();
  const c10::Device place = torch_device(device);
  return at::globalContext()
      .getAcceleratorHooksInterface(place.type())
      .getNewGenerator(place.index());
}

c10::Stream current_stream(const Device& device) {
  const c10::Device place = torch_device(device);
  return c10::impl::VirtualGuardImpl(place.type()).getStream(place);
}

c10::Stream new_stream(const Device& device) {
  const c10::Device place = torch_device(device);
  return c10::impl::VirtualGuardImpl(place.type()).getStreamFromGlobalPool(place);
}

void order(const c10::Stream& earlier, const c10::Stream& later) {
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

Seconds host_now(DeviceKind kind) {
  if (kind == DeviceKind::sim) return sim::host_now();
  return std::chrono::steady_clock::now().time_since_epoch();
}

void host_reaches(DeviceKind kind, Seconds time) {
  if (kind == DeviceKind::sim) sim::host_reaches(time);
}

void begin_step(DeviceKind kind, std::int64_t step) {
  if (kind == DeviceKind::sim) sim::begin_step(step);
}

void limit_memory(const Device& device, double fraction, std::int64_t bytes) {
  if (fraction == 0 && bytes == 0) return;
  if (!(fraction >= 0 && fraction <= 1) || bytes < 0)
    throw ConfigError("memory_limit: fraction must be from 0 to 1, bytes 0 or more.");
  if (device.kind == DeviceKind::gpu) {
    if (fraction > 0) gpu::limit_memory_fraction(device.index, fraction);
    if (bytes > 0) gpu::limit_memory_bytes(device.index, bytes);
  } else if (device.kind == DeviceKind::sim) {
    sim::limit_memory(device.index, fraction, bytes);
  }
}

Memory memory(const Device& device) {
  if (device.kind == DeviceKind::cpu) return {};
  if (device.kind == DeviceKind::gpu) {
    const gpu::Usage usage = gpu::usage(device.index);
    return {usage.bytes, usage.peak_bytes};
  }
  const sim::Usage usage = sim::usage(device.index);
  return {usage.bytes, usage.peak_bytes};
}

void reset_peak(const Device& device) {
  if (device.kind == DeviceKind::sim) sim::reset_peak(device.index);
  if (device.kind == DeviceKind::gpu) gpu::reset_peak(device.index);
}

}  // namespace lockstep::device
