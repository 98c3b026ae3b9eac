#pragma once

// Devices behind LibTorch's own words for them: c10's devices, streams and events, and what a
// backend does in its own way.

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <lockstep/device.h>
#include <lockstep/seconds.h>

#include "device/backend.h"

namespace lockstep::device {

/// Whether devices of this kind have a memory of their own, and work asynchronously.
inline bool is_accelerator(DeviceKind kind) { return kind != DeviceKind::cpu; }

c10::Device torch_device(const Device& device);

/// Makes `device` usable in this process. Throws ConfigError when it is not there.
inline void prepare(const Device& device) { backend(device.kind).prepare(device.index); }

/// Waits for all that `device` has to do. False when it is lost.
bool answers(const Device& device);

at::Generator make_generator(const Device& device);

/// The stream that this thread enqueues to on `device`, and a new one beside it.
c10::Stream current_stream(const Device& device);
c10::Stream new_stream(const Device& device);

/// What is enqueued on `later` from now on comes after what is on `earlier`.
void order(const c10::Stream& earlier, const c10::Stream& later);

/// The host's clock as devices of this kind have it: virtual where they are simulated.
inline Seconds host_now(DeviceKind kind) { return backend(kind).host_now(); }
/// This thread waited for another, which had come to `time`.
inline void host_reaches(DeviceKind kind, Seconds time) { backend(kind).host_reaches(time); }

/// Training step `step` begins: simulated devices count faults by it.
inline void begin_step(DeviceKind kind, std::int64_t step) { backend(kind).begin_step(step); }

/// The most memory this process may take on an accelerator, as a fraction of all or in bytes; 0: no
/// limit of that kind.
void limit_memory(const Device& device, double fraction, std::int64_t bytes);

inline MemoryUse memory(const Device& device) { return backend(device.kind).memory(device.index); }
inline void reset_peak(const Device& device) { backend(device.kind).reset_peak(device.index); }

}  // namespace lockstep::device
