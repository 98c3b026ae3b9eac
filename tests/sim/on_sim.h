#pragma once

// Helpers of the tests on simulated devices.

#include <c10/core/impl/VirtualGuardImpl.h>
#include <lockstep/sim.h>
#include <torch/torch.h>

#include "device/device_scope.h"

namespace on_sim {

inline c10::Device device(int index) {
  return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

/// The model, constructed on the device with the weights that `seed` gives on the CPU.
template <class Model>
std::shared_ptr<Model> make(c10::Device device, std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  const auto on_cpu = std::make_shared<Model>();
  if (device.is_cpu()) return on_cpu;
  const lockstep::device::DeviceScope scope(device);
  auto model = std::make_shared<Model>();
  const torch::NoGradGuard no_grad;
  const auto copy = [](const auto& from, const auto& to) {
    for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  };
  copy(on_cpu->parameters(), model->parameters());
  copy(on_cpu->buffers(), model->buffers());
  return model;
}

inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return torch::equal(a.cpu(), b.cpu());
}

inline c10::Stream side_stream(int index = 0) {
  return c10::impl::VirtualGuardImpl(device(0).type()).getStreamFromGlobalPool(device(index));
}

}  // namespace on_sim
