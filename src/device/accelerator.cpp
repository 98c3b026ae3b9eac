#include "device/accelerator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <lockstep/error.h>

namespace lockstep::device {

c10::Device torch_device(const Device& device) {
  if (!is_accelerator(device.kind)) return c10::Device(c10::kCPU);
  return {backend(device.kind).type(), static_cast<c10::DeviceIndex>(device.index)};
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

void limit_memory(const Device& device, double fraction, std::int64_t bytes) {
  if (fraction == 0 && bytes == 0) return;
  if (!(fraction >= 0 && fraction <= 1) || bytes < 0)
    throw ConfigError("memory_limit: fraction must be from 0 to 1, bytes 0 or more.");
  backend(device.kind).limit_memory(device.index, fraction, bytes);
}

}  // namespace lockstep::device
