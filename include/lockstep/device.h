#pragma once

// Devices: where the towers run. A number is always an index, as in "cpu:0" or "gpu:1".

#include <lockstep/placement.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class DeviceKind {
  cpu,
  gpu,
  sim,  ///< a simulated accelerator, see lockstep/sim.h
};

/// Something that computes. CPU devices are the cores of one machine, each with its own threads.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  int threads = 1;  ///< intra-op threads; part of the mathematics, see docs/notes.md

  std::string name() const;  ///< "cpu:0", "gpu:1", "sim:2"
  friend bool operator==(const Device&, const Device&) = default;
};

/// What this machine offers to this process.
struct Inventory {
  int cores = 1;  ///< that this process may use, after CPU affinity and cgroup quota
  int gpus = 0;   ///< numbered after CUDA_VISIBLE_DEVICES; why there is none: lockstep/gpu.h
  int sims = 4;   ///< simulated devices, used on request only
};

Inventory inventory();

/// The maker of this machine's CPU, and which of the instruction sets it has that libraries choose
/// their code by: "GenuineIntel fma avx2 avx512f".
std::string cpu_words();

/// Every GPU; without one, a CPU device per core this process may use.
std::vector<Device> all_devices();

/// CPU devices 0 to `count` - 1. More than there are cores is allowed: they take turns.
std::vector<Device> cpu_devices(int count, int threads = 1);

/// Reads what people write: "auto"; "cpu", "gpu" and "sim" (all of them); "cpu:0-3", "gpu:0,2",
/// "cuda:1", "/gpu:0", "/device:GPU:0", and lists such as "cpu:0,cpu:1". `threads` goes to CPU
/// devices. Throws ConfigError for text it cannot read, a device named twice, or one that does not
/// exist; the message lists those that do.
std::vector<Device> parse_devices(std::string_view text, int threads = 1);
std::vector<Device> parse_devices(std::string_view text, int threads, const Inventory& machine);

struct Resolved {
  std::vector<Device> devices;
  std::vector<std::string> notes;  ///< a sentence for each thing that is not as asked for
};

/// As parse_devices, but with soft placement devices that do not exist are left out or, if none is
/// left, replaced by CPU devices; `notes` says so. "gpu" without any GPU is a CPU device per core.
Resolved resolve_devices(std::string_view text, Placement placement = Placement::soft,
                         int threads = 1);
Resolved resolve_devices(std::string_view text, Placement placement, int threads,
                         const Inventory& machine);

/// One line when `devices` ask for more threads than there are cores, else empty.
std::string oversubscription(const std::vector<Device>& devices, const Inventory& machine);

/// Default number of shards. The result depends on it, so it is the same on all machines.
inline constexpr int kDefaultShards = 4;

/// One line when the devices cannot share the shards evenly, else empty.
std::string uneven_shards(int shards, int devices);

}  // namespace lockstep
