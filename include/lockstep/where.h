#pragma once

// Where: which devices a training runs on, and how. None of this changes the result.

#include <lockstep/device.h>
#include <lockstep/exchange.h>
#include <lockstep/machines.h>
#include <lockstep/trace.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// What to do when a device is lost, or runs out of memory, before a step was applied.
enum class OnDeviceFailure {
  stop,    ///< throw TowerError
  replay,  ///< continue without the device: the others take over its shards, and the result is the
           ///< same. Slots are copied to the host after each step, so that they survive; with
           ///< several machines to the next one, so that it survives the loss of a machine, too,
           ///< see Strategy::rescue
};

/// How many shards each device computes.
enum class Balance {
  even,
  automatic,  ///< by measured speed
};

/// The most memory that tensors of this process may take on each accelerator. Memory grows as
/// needed.
struct MemoryLimit {
  double fraction = 0;     ///< of what the device has; 0: no limit
  std::int64_t bytes = 0;  ///< 0: no limit
};

struct Where {
  std::vector<Device> devices = all_devices();  ///< of this machine
  /// Those who train together, see join(): every one of them runs the same program, with devices of
  /// its own. Null: this machine alone.
  std::shared_ptr<Machines> machines = nullptr;
  /// What machines compare in place of cpu_words(), for a process that lets LibTorch use fewer
  /// instruction sets than the CPU has (ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA, MKL_CBWR).
  std::string instructions = "";
  Exchanging exchange = {};  ///< between accelerators
  Balance balance = Balance::even;
  OnDeviceFailure on_device_failure = OnDeviceFailure::stop;
  MemoryLimit memory_limit = {};
  std::shared_ptr<Trace> trace = nullptr;  ///< gets the stages of every step
};

}  // namespace lockstep
