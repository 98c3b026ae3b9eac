#pragma once

// What the program takes from its environment, read here and nowhere else.

#include <optional>
#include <string>

namespace lockstep::apps {

struct Environment {
  std::optional<std::string> cuda_visible_devices;  ///< which GPUs CUDA shows, and in which order
  std::optional<std::string> sim;  ///< LOCKSTEP_SIM: as sim::parse_options reads it
};

Environment read_environment();

}  // namespace lockstep::apps
