#pragma once

// What a kind of devices does in its own way. All else goes through c10's devices, streams and
// events. Indices are those of lockstep::Device.

#include <c10/core/Device.h>
#include <lockstep/device.h>
#include <lockstep/seconds.h>

#include <cstdint>

namespace lockstep::device {

/// Bytes in use on an accelerator now, and at most since reset_peak(); 0 on the CPU.
struct MemoryUse {
  std::int64_t bytes = 0, peak_bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual c10::DeviceType type() const = 0;
  virtual int count() const = 0;  ///< of the devices that this process may use

  /// Makes a device usable in this process. Throws ConfigError when it is not there.
  virtual void prepare(int index) = 0;

  /// As a fraction of all or in bytes; 0: no limit of that kind. Not both are 0.
  virtual void limit_memory(int index, double fraction, std::int64_t bytes) = 0;
  virtual MemoryUse memory(int index) const = 0;
  virtual void reset_peak(int index) = 0;

  /// The host's clock as these devices have it: virtual where they are simulated.
  virtual Seconds host_now() const;
  /// This thread waited for another, which had come to `time`.
  virtual void host_reaches(Seconds /*time*/) {}
  /// Training step `step` begins: simulated devices count faults by it.
  virtual void begin_step(std::int64_t /*step*/) {}
};

/// The backend of a kind; one a process. This layer only declares the function: src/backends, which
/// is above all backends, defines it and so knows every one. A program that uses devices cannot be
/// linked without that object, also from a static library, and no backend has to register itself
/// before main().
Backend& backend(DeviceKind kind);

}  // namespace lockstep::device
