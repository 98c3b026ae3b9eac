#pragma once

// What the program takes from its environment, read here and nowhere else.

#include <lockstep/machines.h>

#include <optional>
#include <string>

namespace lockstep::apps {

struct Environment {
  std::optional<std::string> cuda_visible_devices;  ///< which GPUs CUDA shows, and in which order
  std::optional<std::string> sim;  ///< LOCKSTEP_SIM: as sim::parse_options reads it
};

Environment read_environment();

/// What a launcher says of several machines, see launched(); `first`, unless it is empty, stands
/// for LOCKSTEP_FIRST.
std::optional<MachinesOptions> launched_machines(const std::string& first);

/// Lets LibTorch compute with AVX2 at most, if it has computed nothing yet.
void limit_to_avx2();

std::string machines_secret();  ///< LOCKSTEP_SECRET

}  // namespace lockstep::apps
