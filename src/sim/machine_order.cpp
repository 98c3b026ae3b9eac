#include "sim/machine.h"

#include <lockstep/error.h>

// The clocks: streams, events, and what the host waited for.

namespace lockstep::sim {

void Machine::record(Event& event, const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  const Stream& s = streams_[stream_index(stream.device_index(), stream.id())];
  event = {.clock = s.clock, .time = std::max(s.time, host().time), .generation = generation()};
  event.clock.join(host_clock_);
}

void Machine::wait(const Event& event, const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  if (event.generation != generation()) return;
  Stream& s = streams_[stream_index(stream.device_index(), stream.id())];
  s.clock.join(event.clock);
  s.time = std::max(s.time, event.time);
}

bool Machine::query(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (event.generation != generation()) return true;
  Host& me = host();
  if (me.time < event.time) {
    me.time += std::max(options_.launch.count(), 1e-6);  // a loop that asks gets somewhere
    return false;
  }
  host_clock_.join(event.clock);
  settle();
  return true;
}

bool Machine::query(const c10::Stream& stream) {
  Event event;
  record(event, stream);
  return query(event);
}

void Machine::synchronize(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (event.generation != generation()) return;
  host_learns(-1, event.clock, event.time);
}

void Machine::synchronize(const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  throw_if_lost(stream.device_index());
  const Stream& s = streams_[stream_index(stream.device_index(), stream.id())];
  host_learns(stream.device_index(), s.clock, s.time);
}

void Machine::synchronize_device(int index) {
  const std::lock_guard lock(mutex_);
  throw_if_lost(index);
  VectorClock clock;
  double time = 0;
  for (const std::size_t s : device(index).streams) {
    clock.join(streams_[s].clock);
    time = std::max(time, streams_[s].time);
  }
  host_learns(index, clock, time);
}

/// A thread whose current device this is goes on from the last such thread; to others the device is
/// foreign, and they leave its threads their time. Returns the time when the operator is enqueued.
double Machine::enqueue(int index) {
  Host& me = host();
  if (me.device != index) return me.time += options_.launch.count();
  Device& d = device(index);
  me.time = d.host_time = std::max(me.time, d.host_time) + options_.launch.count();
  me.last_device = index;
  return me.time;
}

void Machine::host_learns(int index, const VectorClock& clock, double time) {
  Host& me = host();
  me.time = std::max(me.time, time);
  if (index >= 0 && me.device == index)
    device(index).host_time = std::max(device(index).host_time, me.time);
  host_clock_.join(clock);
  settle();
}

void Machine::throw_if_lost(int index) {
  if (device(index).lost) throw DeviceLost(device_name(index), "in step " + std::to_string(step_));
}

bool Machine::take_fault(Fault::Kind kind, int index, std::int64_t at) {
  for (std::size_t i = 0; i < options_.faults.size(); ++i) {
    const Fault& fault = options_.faults[i];
    if (fault_done_[i] || fault.kind != kind || fault.device != index || fault.step != step_ ||
        fault.at != at)
      continue;
    fault_done_[i] = true;
    return true;
  }
  return false;
}

}  // namespace lockstep::sim
