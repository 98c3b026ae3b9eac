#pragma once

// Placement: what happens to an operator that a device cannot run, and to a device that does not
// exist.

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

enum class Placement {
  soft,    ///< runs on the CPU, the result is copied back; counted, and noted once
  strict,  ///< is an error
};

/// For the whole process, like LibTorch's kernels. `soft` by default.
void set_placement(Placement placement);
Placement placement();

/// An operator that ran on the CPU because a device has no kernel for it.
struct Fallback {
  std::string op;      ///< "aten::erfinv"
  std::string device;  ///< "sim:1"
  std::string module;  ///< the parameter it was given last, e.g. "encoder.weight"; may be empty
  std::string reason;
  std::int64_t count = 0;
};

/// All fallbacks since the program began, by device and operator.
std::vector<Fallback> fallbacks();

}  // namespace lockstep
