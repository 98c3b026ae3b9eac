#include "sim/machine.h"

#include <lockstep/error.h>

#include <thread>

namespace lockstep::sim {
namespace {

constexpr std::size_t kPool = 32;  // streams of the global pool, as on CUDA
constexpr int kPatience = 200;     // milliseconds

}  // namespace

std::string device_name(int device) { return "sim:" + std::to_string(device); }

Machine& Machine::instance() {
  static Machine* machine = new Machine;  // tensors may outlive static objects
  return *machine;
}

Machine::Machine() { rebuild(Options{}); }

void Machine::configure(const Options& options) {
  std::unique_lock lock(mutex_);
  // The autograd engine's threads drop their last tensors shortly after backward has returned.
  for (int i = 0; i < kPatience && !live_.empty(); ++i) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.lock();
  }
  if (!live_.empty())
    throw std::logic_error("sim::configure: " + std::to_string(live_.size()) +
                           " allocations are still on simulated devices");
  if (options.devices < 1 || options.devices > 64)
    throw ConfigError("sim: devices must be 1 to 64, not " + std::to_string(options.devices));
  for (Device& d : devices_) drop_cache(d);
  rebuild(options);
}

void Machine::inject(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  options_.faults.push_back(fault);
  fault_done_.push_back(false);
}

void Machine::limit_memory(int index, double fraction, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  std::int64_t limit = options_.memory_bytes;
  if (fraction > 0) limit = static_cast<std::int64_t>(fraction * static_cast<double>(limit));
  if (bytes > 0) limit = limit > 0 ? std::min(limit, bytes) : bytes;
  device(index).limit = limit;
}

void Machine::rebuild(const Options& options) {
  options_ = options;
  devices_.clear();
  streams_.clear();
  timeline_.clear();
  transfers_.clear();
  host_clock_ = {};
  step_ = 0;
  fault_done_.assign(options.faults.size(), false);
  for (auto& [data, memory] : pinned_) memory->history.clear();
  for (int i = 0; i < options.devices; ++i) {
    const auto index = static_cast<std::size_t>(i);
    devices_.emplace_back();
    devices_.back().limit = options.memory_bytes;
    if (index < options.slowdown.size()) devices_.back().slowdown = options.slowdown[index];
    add_stream(i);
  }
  device_count_.store(options.devices, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

void Machine::begin_step(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
  for (Device& d : devices_) d.usage.allocations = d.usage.operators = 0;
}

Usage Machine::usage(int index) {
  const std::lock_guard lock(mutex_);
  return device(index).usage;
}

void Machine::reset_peak(int index) {
  const std::lock_guard lock(mutex_);
  device(index).usage.peak_bytes = device(index).usage.bytes;
}

std::vector<Span> Machine::timeline() {
  const std::lock_guard lock(mutex_);
  return timeline_;
}

double Machine::host_now() {
  Host& me = host();
  const std::lock_guard lock(mutex_);
  return me.last_device < 0 ? me.time : std::max(me.time, device(me.last_device).host_time);
}

void Machine::host_reaches(double time) {
  Host& me = host();
  me.time = std::max(me.time, time);
}

double Machine::device_now(int index) {
  const std::lock_guard lock(mutex_);
  double latest = 0;
  for (const std::size_t s : device(index).streams) latest = std::max(latest, streams_[s].time);
  return latest;
}

Machine::Host& Machine::host() {
  thread_local Host me;
  if (me.generation != generation()) {
    const int before = me.device;
    me = Host{};
    me.device = before < devices() ? before : 0;
    me.generation = generation();
    me.streams.assign(static_cast<std::size_t>(devices()), 0);
  }
  return me;
}

Machine::Device& Machine::device(int index) {
  if (index < 0 || static_cast<std::size_t>(index) >= devices_.size())
    throw ConfigError("there is no " + device_name(index) + ": the simulated machine has " +
                      std::to_string(devices_.size()) + " devices");
  return devices_[static_cast<std::size_t>(index)];
}

int Machine::current_device() { return host().device; }

int Machine::set_device(int index) { return std::exchange(host().device, index); }

c10::StreamId Machine::current_stream(int index) {
  const auto& streams = host().streams;
  return static_cast<std::size_t>(index) < streams.size() ? streams[static_cast<std::size_t>(index)]
                                                          : 0;
}

c10::StreamId Machine::set_stream(int index, c10::StreamId stream) {
  return std::exchange(host().streams.at(static_cast<std::size_t>(index)), stream);
}

c10::StreamId Machine::pool_stream(int index) {
  const std::lock_guard lock(mutex_);
  const std::size_t id = 1 + device(index).next_in_pool++ % kPool;
  while (device(index).streams.size() <= id) add_stream(index);
  return static_cast<c10::StreamId>(id);
}

c10::StreamId Machine::new_stream(int index) {
  const std::lock_guard lock(mutex_);
  while (device(index).streams.size() <= kPool) add_stream(index);
  return streams_[add_stream(index)].id;
}

std::size_t Machine::add_stream(int index) {
  auto& ids = device(index).streams;
  streams_.push_back({.device = index, .id = static_cast<c10::StreamId>(ids.size())});
  ids.push_back(streams_.size() - 1);
  return streams_.size() - 1;
}

std::size_t Machine::stream_index(int index, c10::StreamId id) {
  const auto& ids = device(index).streams;
  if (id < 0 || static_cast<std::size_t>(id) >= ids.size())
    throw std::logic_error("there is no stream " + std::to_string(id) + " on " +
                           device_name(index));
  return ids[static_cast<std::size_t>(id)];
}

}  // namespace lockstep::sim
