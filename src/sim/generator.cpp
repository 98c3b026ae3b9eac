#include "sim/generator.h"

#include "sim/machine.h"

#include <ATen/CPUGeneratorImpl.h>

#include <array>
#include <mutex>

namespace lockstep::sim {
namespace {

class SimGenerator final : public c10::GeneratorImpl {
 public:
  SimGenerator(int device, at::Generator cpu)
      : c10::GeneratorImpl({kDeviceType, static_cast<c10::DeviceIndex>(device)},
                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        cpu_(std::move(cpu)) {}

  const at::Generator& cpu() const { return cpu_; }

  // Kernels draw under the lock of the generator inside.
  void set_current_seed(std::uint64_t seed) override { locked()->set_current_seed(seed); }
  void set_offset(std::uint64_t offset) override { locked()->set_offset(offset); }
  std::uint64_t get_offset() const override { return locked()->get_offset(); }
  std::uint64_t current_seed() const override { return locked()->current_seed(); }
  std::uint64_t seed() override { return locked()->seed(); }
  void set_state(const c10::TensorImpl& state) override { locked()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return locked()->get_state(); }

 private:
  SimGenerator* clone_impl() const override {
    return new SimGenerator(device().index(), cpu_.clone());
  }

  struct Locked {
    std::unique_lock<std::mutex> lock;
    c10::GeneratorImpl* generator;
    c10::GeneratorImpl* operator->() const { return generator; }
  };
  Locked locked() const {
    c10::GeneratorImpl* generator = cpu_.unsafeGetGeneratorImpl();
    return {std::unique_lock(generator->mutex_), generator};
  }

  at::Generator cpu_;
};

}  // namespace

at::Generator make_generator(int device) {
  return at::make_generator<SimGenerator>(device, at::detail::createCPUGenerator());
}

const at::Generator& default_generator(int device) {
  constexpr int kMost = 64;
  static const auto* all = [] {
    auto* generators = new std::array<at::Generator, kMost>;
    for (int i = 0; i < kMost; ++i) (*generators)[static_cast<std::size_t>(i)] = make_generator(i);
    return generators;
  }();
  return all->at(static_cast<std::size_t>(device));
}

at::Generator cpu_generator(const std::optional<at::Generator>& generator, int device,
                            const std::string& op) {
  const at::Generator& given =
      generator && generator->defined() ? *generator : default_generator(device);
  if (given.device().type() != kDeviceType) return given;
  if (given.device().index() != device)
    throw MixedDevices(op + " was given tensors of " + device_name(device) +
                       " and a generator of " + given.device().str());
  return static_cast<SimGenerator*>(given.unsafeGetGeneratorImpl())->cpu();
}

}  // namespace lockstep::sim
