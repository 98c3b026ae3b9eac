#include "sim/allocator.h"
#include "sim/generator.h"
#include "sim/guard.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <cstring>

namespace lockstep::sim {
namespace {

int resolved(c10::DeviceIndex device) { return device >= 0 ? device : machine().current_device(); }

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(machine().devices());
  }
  void setCurrentDevice(c10::DeviceIndex device) const override { machine().set_device(device); }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(machine().current_device());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return static_cast<c10::DeviceIndex>(machine().set_device(device));
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(resolved(device));
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return make_generator(resolved(device));
  }
  bool isPinnedPtr(const void* data) const override {
    return machine().find_pinned(data) != nullptr;
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    static const auto* name = new std::string("aten::resize_");
    const c10::Device device = storage.device();
    const std::size_t kept = std::min(bytes, storage.nbytes());
    std::vector<Use> uses;
    if (Allocation* memory = kept > 0 ? allocation_of(storage.data_ptr()) : nullptr)
      uses.push_back({.memory = memory, .begin = 0, .end = kept});
    const Launch launch = machine().begin(device.index(), *name, uses);
    const KernelScope scope(launch);
    c10::DataPtr larger = allocate_on(device.index(), bytes, device);
    if (kept > 0) std::memcpy(larger.get(), storage.data(), kept);
    machine().end(launch, {.bytes = 2 * static_cast<double>(kept)});
    storage.unsafeGetStorageImpl()->set_data_ptr(std::move(larger));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

}  // namespace

void install_hooks() { at::RegisterPrivateUse1HooksInterface(new Hooks); }

}  // namespace lockstep::sim
