#include "sim/guard.h"

#include "sim/machine.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace lockstep::sim {
namespace {

using c10::Device;
using c10::DeviceIndex;

Device make_device(int index) { return {kDeviceType, static_cast<DeviceIndex>(index)}; }

c10::Stream make_stream(Device device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, device, id);
}

/// The device meant: LibTorch says -1 for the current one.
Device resolved(Device device) {
  return device.has_index() ? device : make_device(machine().current_device());
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDeviceType; }
  Device exchangeDevice(Device device) const override {
    return make_device(machine().set_device(checked(device)));
  }
  Device getDevice() const override { return make_device(machine().current_device()); }
  void setDevice(Device device) const override { machine().set_device(checked(device)); }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.has_index()) machine().set_device(device.index());
  }
  DeviceIndex deviceCount() const noexcept override {
    return static_cast<DeviceIndex>(machine().devices());
  }

  c10::Stream getStream(Device device) const override {
    return make_stream(resolved(device), machine().current_stream(resolved(device).index()));
  }
  c10::Stream getDefaultStream(Device device) const override {
    return make_stream(resolved(device), 0);
  }
  c10::Stream getStreamFromGlobalPool(Device device, bool) const override {
    return make_stream(resolved(device), machine().pool_stream(resolved(device).index()));
  }
  c10::Stream getNewStream(Device device, int) const override {
    return make_stream(resolved(device), machine().new_stream(resolved(device).index()));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return make_stream(stream.device(), machine().set_stream(stream.device_index(), stream.id()));
  }
  bool queryStream(const c10::Stream& stream) const override { return machine().query(stream); }
  void synchronizeStream(const c10::Stream& stream) const override {
    machine().synchronize(stream);
  }
  void synchronizeDevice(DeviceIndex device) const override {
    machine().synchronize_device(device);
  }

  void record(void** event, const c10::Stream& stream, DeviceIndex, c10::EventFlag) const override {
    if (!*event) *event = new Event;
    machine().record(*static_cast<Event*>(*event), stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    machine().wait(*static_cast<Event*>(event), stream);
  }
  bool queryEvent(void* event) const override {
    return machine().query(*static_cast<Event*>(event));
  }
  void synchronizeEvent(void* event) const override {
    machine().synchronize(*static_cast<Event*>(event));
  }
  void destroyEvent(void* event, DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* first, void* second, DeviceIndex) const override {
    constexpr double kMilliseconds = 1e3;
    return (static_cast<Event*>(second)->time - static_cast<Event*>(first)->time) * kMilliseconds;
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (Allocation* memory = allocation_of(data)) machine().record_stream(memory, stream);
  }

 private:
  static int checked(Device device) {
    TORCH_CHECK(device.type() == kDeviceType, "not a simulated device: ", device);
    const int index = resolved(device).index();
    TORCH_CHECK(index >= 0 && index < machine().devices(), "there is no ", device_name(index),
                ": the simulated machine has ", machine().devices(), " devices");
    return index;
  }
};

}  // namespace

void install_guard() { c10::impl::registerDeviceGuard(kDeviceType, new Guard); }

}  // namespace lockstep::sim
