#pragma once

// What differs between kinds of devices, behind LibTorch's own words for it. Everything else about
// an accelerator goes through c10's devices, streams and events.

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <lockstep/device.h>
#include <lockstep/report.h>

namespace lockstep::device {

/// Whether devices of this kind have a memory of their own, and work asynchronously.
inline bool is_accelerator(DeviceKind kind) { return kind != DeviceKind::cpu; }

c10::Device torch_device(const Device& device);

/// Makes `device` usable in this process. Throws ConfigError when it is not there. The first GPU
/// calls ask_for_determinism().
void prepare(const Device& device);

/// Waits for all that `device` has to do. False when it is lost.
bool answers(const Device& device);

/// Makes LibTorch choose algorithms whose results repeat exactly, and refuse operators that have
/// none. Once for the process: what the program sets later stays. See docs/cuda.md.
void ask_for_determinism();

at::Generator make_generator(const Device& device);

/// The stream that this thread enqueues to on `device`, and a new one beside it.
c10::Stream current_stream(const Device& device);
c10::Stream new_stream(const Device& device);

/// What is enqueued on `later` from now on comes after what is on `earlier`.
void order(const c10::Stream& earlier, const c10::Stream& later);

/// The host's clock as devices of this kind have it: virtual where they are simulated.
Seconds host_now(DeviceKind kind);
/// This thread waited for another, which had come to `time`.
void host_reaches(DeviceKind kind, Seconds time);

/// Training step `step` begins: simulated devices count faults by it.
void begin_step(DeviceKind kind, std::int64_t step);

/// The most memory this process may take on an accelerator, as a fraction of all or in bytes; 0: no
/// limit of that kind.
void limit_memory(const Device& device, double fraction, std::int64_t bytes);

/// Bytes in use on an accelerator now, and at most since reset_peak(); 0 on the CPU.
struct Memory {
  std::int64_t bytes = 0, peak_bytes = 0;
};
Memory memory(const Device& device);
void reset_peak(const Device& device);

}  // namespace lockstep::device
