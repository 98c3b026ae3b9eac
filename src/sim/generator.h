#pragma once

// Random generators of simulated devices: the CPU's, so the same seed draws the same bits.

#include <ATen/core/Generator.h>

#include <optional>
#include <string>

namespace lockstep::sim {

at::Generator make_generator(int device);

/// Lives as long as the process; seeded anew by torch::manual_seed only.
const at::Generator& default_generator(int device);

/// The CPU generator to draw from: that inside `generator`, itself if it is a CPU's, or that of the
/// device's default one. Throws MixedDevices, naming `op`, for one of another simulated device.
at::Generator cpu_generator(const std::optional<at::Generator>& generator, int device,
                            const std::string& op);

}  // namespace lockstep::sim
