#pragma once

// GPUs: what there is, why there is none, and their memory. A number is that of "gpu:0": GPUs are
// counted after CUDA_VISIBLE_DEVICES. Built without CUDA there is no GPU, and what needs one throws
// ConfigError. See docs/cuda.md.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::gpu {

struct Info {
  std::string name;  ///< "NVIDIA L4"
  std::int64_t memory_bytes = 0;
  std::string uuid;    ///< "GPU-9d1c5cbc-...", whatever CUDA_VISIBLE_DEVICES says
  std::string bus_id;  ///< "0000:65:00.0", on PCI
};

/// Every GPU that this process sees, by number.
std::vector<Info> list();

/// Why list() is empty (no driver, a driver that is too old, no visible GPU, ...); empty text if it
/// is not. `visible` is the value of CUDA_VISIBLE_DEVICES, if that is set.
std::string why_none(std::optional<std::string_view> visible);

/// What `visible` calls GPU `number`: a physical number or a UUID; empty if it names fewer. Without
/// `visible` the number itself.
std::string physical_name(int number, std::optional<std::string_view> visible);

/// Limits the memory that tensors of this process may take on the GPU; more is an out-of-memory
/// error. Throws ConfigError unless 0 < fraction <= 1, or 0 < bytes <= what the GPU has.
void limit_memory_fraction(int number, double fraction);
void limit_memory_bytes(int number, std::int64_t bytes);

/// Of tensors.
struct Usage {
  std::int64_t bytes = 0, peak_bytes = 0;
};
Usage usage(int number);
void reset_peak(int number);

/// From now on an operator without a CUDA kernel is treated as lockstep/placement.h says. Once for
/// the process; further calls do nothing.
void install();

}  // namespace lockstep::gpu
