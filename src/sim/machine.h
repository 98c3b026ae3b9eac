#pragma once

// The simulated machine behind the backend: devices, streams, clocks, memory and faults.

#include "sim/history.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <lockstep/sim.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <span>

namespace lockstep::sim {

inline constexpr auto kDeviceType = c10::DeviceType::PrivateUse1;

/// Bytes that the machine watches. Touched under the machine's lock only, but for data and bytes.
struct Allocation {
  char* data = nullptr;
  std::size_t bytes = 0;  ///< rounded up
  int device = -1;        ///< -1: pinned memory of the host
  std::size_t stream = 0;
  std::uint64_t life = 0;
  History history = {};
  std::vector<std::size_t> recorded = {};  ///< streams named by record_stream
};

/// Bytes [begin, end) of a memory that an operator reads or writes.
struct Use {
  Allocation* memory = nullptr;
  std::size_t begin = 0, end = 0;
  bool write = false;
  const at::Tensor* tensor = nullptr;  ///< for messages; may be null
};

/// What an operator costs.
struct Cost {
  double arithmetic = 0;   ///< operations
  double bytes = 0;        ///< read and written in the device's memory
  double link_bytes = -1;  ///< over a link; negative: none
};

/// An operator between begin() and end().
struct Launch {
  int device = 0;
  std::size_t stream = 0;
  std::uint64_t count = 0;
  const std::string* op = nullptr;
  std::size_t sender = 0;  ///< the stream that a copy comes from; `stream` if it is the only one
  bool in_place = false;   ///< has no results of its own
};

struct Event {
  VectorClock clock;
  double time = 0;
  std::uint64_t generation = 0;  ///< of the machine it was recorded on
};

/// All member functions are thread-safe: one lock, held shortly, never while a kernel runs.
class Machine {
 public:
  static Machine& instance();

  // Life of the machine.
  void configure(const Options& options);
  const Options& options() const { return options_; }
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  int devices() const { return device_count_.load(std::memory_order_acquire); }
  void begin_step(std::int64_t step);
  void inject(const Fault& fault);
  void limit_memory(int device, double fraction, std::int64_t bytes);
  Usage usage(int device);
  void reset_peak(int device);
  std::vector<Span> timeline();

  // Virtual time. A host thread takes over the time of the last that had the same current device:
  // so the autograd engine's threads go on from the thread that called backward, and that one from
  // them.
  double host_now();
  void host_reaches(double time);
  double device_now(int device);

  // Devices and streams of the calling thread.
  int current_device();
  int set_device(int device);  ///< returns the one before
  c10::StreamId current_stream(int device);
  c10::StreamId set_stream(int device, c10::StreamId stream);  ///< returns the one before
  c10::StreamId pool_stream(int device);
  c10::StreamId new_stream(int device);

  // Order. What one host thread waited for counts as known to all of them.
  void record(Event& event, const c10::Stream& stream);
  void wait(const Event& event, const c10::Stream& stream);
  bool query(const Event& event);
  bool query(const c10::Stream& stream);
  void synchronize(const Event& event);
  void synchronize(const c10::Stream& stream);
  void synchronize_device(int device);

  /// Enqueues `op` on the current stream of `device`: counts it, throws OrderError if nothing
  /// orders one of its `uses` after what it depends on, DeviceLost if the device is gone. A copy
  /// from `sender` is ordered on that device's current stream as well, as on CUDA.
  Launch begin(int device, const std::string& op, std::span<const Use> uses, int sender = -1);
  /// The operator's part of its stream's time; `wait`: the host waits for it. Returns its end.
  double end(const Launch& launch, const Cost& cost, bool wait = false);

  // Memory. A block is recycled for the stream that it was allocated on.
  Allocation* allocate(int device, std::size_t bytes, const Launch* inside);
  void release(Allocation* block) noexcept;
  bool is_live(const void* data);      ///< the first byte of a block that was not released yet
  Allocation* find(const void* data);  ///< the block around it that was not released yet, or null
  void record_stream(Allocation* block, const c10::Stream& stream);

  // Pinned memory of the host.
  Allocation* allocate_pinned(std::size_t bytes);
  void release_pinned(Allocation* block) noexcept;
  Allocation* find_pinned(const void* data);
  /// The bytes that `launch` copied to the host are there when the host has waited for it: until
  /// then they read as 0xff (NaN).
  void deliver_later(const Launch& launch, Allocation* pinned, std::size_t begin, std::size_t end);
  /// The host must not change bytes that `launch` copies from before it has waited for it.
  void watch_source(const Launch& launch, Allocation* pinned, std::size_t begin, std::size_t end);
  /// Hands over what was held back of [begin, end), for a copy that is ordered after it.
  void deliver_now(Allocation* pinned, std::size_t begin, std::size_t end);

 private:
  struct Stream {
    int device = 0;
    c10::StreamId id = 0;
    VectorClock clock = {};
    double time = 0;
  };
  struct Device {
    double slowdown = 1;
    bool lost = false;
    std::int64_t limit = 0;  // bytes; 0: none
    Usage usage = {};
    double host_time = 0;              // of the last host thread that used it
    std::vector<std::size_t> streams;  // by StreamId
    std::size_t next_in_pool = 0;
    std::map<std::pair<std::size_t, std::size_t>, std::vector<Allocation*>> free;  // stream, bytes
    std::size_t cached_bytes = 0;
  };
  struct Transfer {
    std::size_t stream = 0;
    std::uint64_t count = 0;
    const std::string* op = nullptr;
    Allocation* pinned = nullptr;
    std::size_t begin = 0, end = 0;
    std::vector<char> bytes = {};  // to deliver; empty for a watched source
    std::size_t checksum = 0;      // of a watched source
  };
  /// What a host thread has: its devices and its time.
  struct Host {
    std::uint64_t generation = 0;
    int device = 0;
    std::vector<c10::StreamId> streams = {};
    double time = 0;
    int last_device = -1;
  };

  Machine();
  void rebuild(const Options& options);
  Host& host();
  Device& device(int index);
  std::size_t stream_index(int device, c10::StreamId id);
  std::size_t add_stream(int device);
  double enqueue(int device);
  void host_learns(int device, const VectorClock& clock, double time);
  Transfer& add_transfer(const Launch& launch, Allocation* pinned, std::size_t begin,
                         std::size_t end);
  void settle();
  void throw_if_lost(int device);
  void lose(Device& device);
  bool take_fault(Fault::Kind kind, int device, std::int64_t at);
  void check(const Launch& launch, const Use& use) const;
  void enter_result(const Launch& launch, Allocation* block, std::size_t bytes);
  Allocation* take_free(Device& from, std::size_t stream, std::size_t bytes);
  void drop_cache(Device& of);
  std::string stream_name(std::size_t stream) const;
  std::string order_message(const Launch& launch, const Use& use, const Conflict& conflict) const;

  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> device_count_{0};

  // Guarded by mutex_ from here on.
  std::mutex mutex_;
  Options options_;
  std::deque<Device> devices_;
  std::deque<Stream> streams_;
  VectorClock host_clock_;
  std::int64_t step_ = 0;
  std::vector<bool> fault_done_;
  std::uint64_t lives_ = 0;
  std::map<const char*, Allocation*> live_;  // by its first byte
  std::vector<Span> timeline_;
  std::map<const char*, Allocation*> pinned_;  // by its first byte
  std::vector<Transfer> transfers_;
};

/// The memory whose first byte is `data`, which the machine must have allocated.
Allocation* allocation_at(void* data);

/// The memory behind a tensor's storage, null if the machine did not allocate it.
Allocation* allocation_of(const c10::DataPtr& data);

/// The use of a tensor's bytes: a strided tensor counts as its bounding range. The allocation is
/// null for an empty tensor and for memory that is not the machine's.
Use use_of(const at::Tensor& tensor, bool write);

/// "float [2, 3] at bytes 0 to 24 of allocation 7 on sim:0".
std::string describe(const Use& use);

std::string device_name(int device);

inline Machine& machine() { return Machine::instance(); }

}  // namespace lockstep::sim
