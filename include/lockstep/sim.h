#pragma once

// Simulated accelerators: "sim:0", "sim:1", ... Each has its own memory, streams, events and random
// generators, computes with the CPU's kernels, and is strict: a mistake that a GPU would punish
// only now and then is an error here, every time. Time is virtual. See docs/sim.md.

#include <lockstep/seconds.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::sim {

/// A fault made on purpose on one device: at operator or allocation number `at` (from 0) of step
/// `step`. Happens once. A device that is lost stays lost until the next configure().
struct Fault {
  enum class Kind { out_of_memory, lost };
  Kind kind = Kind::lost;
  int device = 0;
  std::int64_t step = 0;
  std::int64_t at = 0;  ///< allocation (out_of_memory) or operator, copies included (lost)
};

/// The simulated machine. Speeds are those of a small GPU on PCIe.
struct Options {
  int devices = 4;
  double arithmetic_per_second = 10e12;    ///< of a device
  double memory_bytes_per_second = 500e9;  ///< of a device
  double link_bytes_per_second = 12e9;     ///< between devices, and to the host
  Seconds link_latency{10e-6};             ///< of each copy over a link
  Seconds launch{5e-6};                    ///< host time that enqueuing an operator takes
  std::int64_t memory_bytes = 0;           ///< that a device has; 0: no limit
  std::vector<double> slowdown = {};       ///< by device, e.g. {1, 3}: sim:1 is 3 times slower
  std::vector<std::string> missing = {};   ///< operators without a kernel, e.g. "aten::erfinv"
  std::vector<Fault> faults = {};
  bool timeline = false;  ///< keep what timeline() returns
};

/// Reads "devices=4,slow=1:3,memory=2e9,link=1e9,missing=aten::erfinv,lost=2@5:0,oom=0@3:17":
/// every field of Options, by a short name (docs/sim.md). Throws ConfigError naming the bad part.
Options parse_options(std::string_view text);

/// Makes the machine, replacing one that is there. Without this call the first use of a sim device
/// makes one with Options{}. Clocks and counts start at 0, lost devices are back. No tensor may be
/// on a simulated device, and no backward may be running.
void configure(const Options& options);
const Options& options();  ///< of the machine, or of the one that would be made

/// Loads the backend into LibTorch, if it is not there yet.
void install();

/// Adds a fault to the machine that is there.
void inject(const Fault& fault);

/// Less memory than Options::memory_bytes says: bytes, and a fraction of what the device has, where
/// that is not 0.
void limit_memory(int device, double fraction, std::int64_t bytes);

/// Tells the machine that training step `step` begins: what Fault::step counts.
void begin_step(std::int64_t step);

struct Usage {
  std::int64_t bytes = 0, peak_bytes = 0;
  std::int64_t allocations = 0, operators = 0;  ///< since begin_step
};
Usage usage(int device);
void reset_peak(int device);

/// Virtual time since configure(): of this host thread, and of a device (its last stream to end).
Seconds host_now();
Seconds device_now(int device);

/// This host thread has waited for another that had reached `time`. Called by barriers.
void host_reaches(Seconds time);

/// One operator or copy, as it was on its stream. Bytes over a link are on the receiver's.
struct Span {
  int device = 0;
  std::int64_t stream = 0;
  std::string name;
  Seconds begin{}, end{};
};
std::vector<Span> timeline();

/// Two operators touch the same memory and nothing orders them: a missing event, a missing
/// record_stream, memory reused too early, a host read without synchronisation. The message names
/// both operators, their streams and the tensor.
struct OrderError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An operator was given tensors of two devices. The message names operator and devices.
struct MixedDevices : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace lockstep::sim
