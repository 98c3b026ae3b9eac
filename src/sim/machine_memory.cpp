#include "sim/allocator.h"
#include "sim/machine.h"

#include <lockstep/error.h>

#include <cstring>
#include <functional>
#include <new>

// Memory of the devices, and pinned memory of the host.

namespace lockstep::sim {
namespace {

constexpr std::size_t kRound = 512;         // as CUDA's caching allocator
constexpr std::size_t kCached = 256 << 20;  // bytes that a device keeps for reuse
constexpr std::align_val_t kAlignment{256};

constexpr std::size_t kPrefix = 256;  // holds the address of the Allocation

Allocation* make_allocation(std::size_t bytes) {
  auto* memory = new Allocation;
  memory->data = static_cast<char*>(::operator new(kPrefix + bytes, kAlignment)) + kPrefix;
  memory->bytes = bytes;
  std::memcpy(memory->data - sizeof memory, &memory, sizeof memory);
  return memory;
}

void destroy(Allocation* memory) {
  ::operator delete(memory->data - kPrefix, kAlignment);
  delete memory;
}

Allocation* block_around(const std::map<const char*, Allocation*>& blocks, const void* data) {
  const auto* at = static_cast<const char*>(data);
  auto found = blocks.upper_bound(at);
  if (found == blocks.begin()) return nullptr;
  --found;
  return at < found->first + found->second->bytes ? found->second : nullptr;
}

std::size_t checksum(const Allocation* memory, std::size_t begin, std::size_t end) {
  return std::hash<std::string_view>{}({memory->data + begin, end - begin});
}

}  // namespace

Allocation* allocation_at(void* data) {
  Allocation* memory = nullptr;
  std::memcpy(&memory, static_cast<char*>(data) - sizeof memory, sizeof memory);
  return memory;
}

Allocation* Machine::allocate(int index, std::size_t bytes, const Launch* inside) {
  const c10::StreamId id = current_stream(index);
  const std::lock_guard lock(mutex_);
  throw_if_lost(index);
  Device& d = device(index);
  const std::size_t rounded = (bytes + kRound - 1) / kRound * kRound;
  const auto size = static_cast<std::int64_t>(rounded);
  const bool fault = take_fault(Fault::Kind::out_of_memory, index, d.usage.allocations++);
  if (fault || (d.limit > 0 && d.usage.bytes + size > d.limit))
    TORCH_CHECK_WITH(OutOfMemoryError, false, device_name(index), " is out of memory: ", size,
                     " bytes asked for, ", d.usage.bytes, " in use, ",
                     d.limit > 0 ? std::to_string(d.limit) : "no limit",
                     fault ? " (a fault on purpose)" : " there are");
  Allocation* block = take_free(d, stream_index(index, id), rounded);
  if (!block) {
    block = make_allocation(rounded);
    block->device = index;
    block->stream = stream_index(index, id);
  }
  block->life = ++lives_;
  if (inside) enter_result(*inside, block, bytes);
  d.usage.bytes += size;
  d.usage.peak_bytes = std::max(d.usage.peak_bytes, d.usage.bytes);
  live_[block->data] = block;
  return block;
}

/// What a kernel allocates it writes. Gives the block back to the system if that is an error.
void Machine::enter_result(const Launch& launch, Allocation* block, std::size_t bytes) {
  const VectorClock& clock = streams_[launch.stream].clock;
  if (const auto conflict = block->history.conflict(0, bytes, true, clock)) {
    const std::string message =
        order_message(launch, {.memory = block, .end = bytes, .write = true}, *conflict);
    destroy(block);
    throw OrderError(message);
  }
  block->history.enter(0, bytes, true, {launch.stream, launch.count, block->life, launch.op},
                       clock);
}

bool Machine::is_live(const void* data) {
  const std::lock_guard lock(mutex_);
  return live_.contains(static_cast<const char*>(data));
}

Allocation* Machine::find(const void* data) {
  const std::lock_guard lock(mutex_);
  return block_around(live_, data);
}

Allocation* Machine::take_free(Device& from, std::size_t stream, std::size_t bytes) {
  const auto found = from.free.find({stream, bytes});
  if (found == from.free.end() || found->second.empty()) return nullptr;
  Allocation* block = found->second.back();
  found->second.pop_back();
  from.cached_bytes -= bytes;
  return block;
}

void Machine::release(Allocation* block) noexcept {
  const std::lock_guard lock(mutex_);
  Device& d = devices_[static_cast<std::size_t>(block->device)];
  d.usage.bytes -= static_cast<std::int64_t>(block->bytes);
  live_.erase(block->data);
  for (const std::size_t stream : block->recorded) block->history.forget(stream);
  block->recorded.clear();
  d.free[{block->stream, block->bytes}].push_back(block);
  d.cached_bytes += block->bytes;
  if (d.cached_bytes > kCached) drop_cache(d);
}

void Machine::drop_cache(Device& of) {
  for (auto& [key, blocks] : of.free)
    for (Allocation* block : blocks) destroy(block);
  of.free.clear();
  of.cached_bytes = 0;
}

void Machine::record_stream(Allocation* block, const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  const std::size_t index = stream_index(stream.device_index(), stream.id());
  if (index != block->stream) block->recorded.push_back(index);
}

Allocation* Machine::allocate_pinned(std::size_t bytes) {
  Allocation* block = make_allocation(std::max<std::size_t>(bytes, 1));
  const std::lock_guard lock(mutex_);
  block->life = ++lives_;
  pinned_[block->data] = block;
  return block;
}

void Machine::release_pinned(Allocation* block) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(transfers_, [&](const Transfer& t) { return t.pinned == block; });
  pinned_.erase(block->data);
  destroy(block);
}

Allocation* Machine::find_pinned(const void* data) {
  const std::lock_guard lock(mutex_);
  return block_around(pinned_, data);
}

Machine::Transfer& Machine::add_transfer(const Launch& launch, Allocation* pinned,
                                         std::size_t begin, std::size_t end) {
  return transfers_.emplace_back(Transfer{.stream = launch.stream,
                                          .count = launch.count,
                                          .op = launch.op,
                                          .pinned = pinned,
                                          .begin = begin,
                                          .end = end});
}

void Machine::deliver_later(const Launch& launch, Allocation* pinned, std::size_t begin,
                            std::size_t end) {
  const std::lock_guard lock(mutex_);
  add_transfer(launch, pinned, begin, end).bytes.assign(pinned->data + begin, pinned->data + end);
  std::memset(pinned->data + begin, 0xff, end - begin);
}

void Machine::watch_source(const Launch& launch, Allocation* pinned, std::size_t begin,
                           std::size_t end) {
  const std::lock_guard lock(mutex_);
  add_transfer(launch, pinned, begin, end).checksum = checksum(pinned, begin, end);
}

void Machine::deliver_now(Allocation* pinned, std::size_t begin, std::size_t end) {
  const std::lock_guard lock(mutex_);
  std::erase_if(transfers_, [&](const Transfer& t) {
    const bool mine = t.pinned == pinned && !t.bytes.empty() && t.begin < end && begin < t.end;
    if (mine) std::memcpy(pinned->data + t.begin, t.bytes.data(), t.bytes.size());
    return mine;
  });
}

/// Ends the transfers that the host has waited for by now.
void Machine::settle() {
  if (transfers_.empty()) return;
  std::string problem;
  std::erase_if(transfers_, [&](const Transfer& t) {
    if (host_clock_[t.stream] < t.count) return false;
    if (!t.bytes.empty()) {
      std::memcpy(t.pinned->data + t.begin, t.bytes.data(), t.bytes.size());
    } else if (checksum(t.pinned, t.begin, t.end) != t.checksum) {
      const Use use{.memory = t.pinned, .begin = t.begin, .end = t.end, .write = true};
      problem = "the host wrote " + describe(use) + " while " + *t.op + " on " +
                stream_name(t.stream) + " read it: synchronise before the host writes";
    }
    return true;
  });
  if (!problem.empty()) throw OrderError(problem);
}

}  // namespace lockstep::sim
