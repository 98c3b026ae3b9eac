#include "sim/machine.h"

#include <ATen/core/Formatting.h>
#include <c10/util/StringUtil.h>
#include <lockstep/error.h>

// Operators: order on entry, time on exit.

namespace lockstep::sim {

Launch Machine::begin(int index, const std::string& op, std::span<const Use> uses, int sender) {
  const c10::StreamId id = current_stream(index);
  const c10::StreamId sender_id = sender < 0 ? 0 : current_stream(sender);
  const std::lock_guard lock(mutex_);
  Device& d = device(index);
  if (take_fault(Fault::Kind::lost, index, d.usage.operators++)) lose(d);
  throw_if_lost(index);
  if (sender >= 0) throw_if_lost(sender);

  Launch launch{.device = index, .stream = stream_index(index, id), .op = &op};
  launch.sender = sender < 0 ? launch.stream : stream_index(sender, sender_id);
  Stream& stream = streams_[launch.stream];
  stream.clock.join(host_clock_);
  if (launch.sender != launch.stream) {
    Stream& from = streams_[launch.sender];
    stream.clock.join(from.clock);
    stream.time = from.time = std::max(stream.time, from.time);
  }
  launch.count = stream.clock.advance(launch.stream);
  if (launch.sender != launch.stream) streams_[launch.sender].clock.join(stream.clock);

  for (const Use& use : uses) check(launch, use);
  for (const Use& use : uses)
    use.memory->history.enter(use.begin, use.end, use.write,
                              {launch.stream, launch.count, use.memory->life, launch.op},
                              stream.clock);
  return launch;
}

/// Nothing runs there any more: what its streams were doing touches no memory from now on, and the
/// host is told so at once. What they had waited for on other devices may still run.
void Machine::lose(Device& device) {
  device.lost = true;
  for (const std::size_t stream : device.streams)
    host_clock_.know(stream, streams_[stream].clock[stream]);
}

double Machine::end(const Launch& launch, const Cost& cost, bool wait) {
  const std::lock_guard lock(mutex_);
  const double enqueued = enqueue(launch.device);
  Stream& stream = streams_[launch.stream];
  const Device& d = device(launch.device);
  double seconds = d.slowdown * std::max(cost.arithmetic / options_.arithmetic_per_second,
                                         cost.bytes / options_.memory_bytes_per_second);
  if (cost.link_bytes >= 0)
    seconds += options_.link_latency.count() + cost.link_bytes / options_.link_bytes_per_second;
  const double begin = std::max(stream.time, enqueued);
  stream.time = begin + seconds;
  if (launch.sender != launch.stream) streams_[launch.sender].time = stream.time;
  if (options_.timeline)
    timeline_.push_back({.device = launch.device,
                         .stream = stream.id,
                         .name = *launch.op,
                         .begin = Seconds{begin},
                         .end = Seconds{stream.time}});
  if (wait) host_learns(launch.device, stream.clock, stream.time);
  return stream.time;
}

void Machine::check(const Launch& launch, const Use& use) const {
  const auto conflict =
      use.memory->history.conflict(use.begin, use.end, use.write, streams_[launch.stream].clock);
  if (conflict) throw OrderError(order_message(launch, use, *conflict));
}

std::string Machine::stream_name(std::size_t stream) const {
  return "stream " + std::to_string(streams_[stream].id) + " of " +
         device_name(streams_[stream].device);
}

std::string Machine::order_message(const Launch& launch, const Use& use,
                                   const Conflict& conflict) const {
  const std::string first = *conflict.other.op + " on " + stream_name(conflict.other.stream);
  const std::string second = *launch.op + " on " + stream_name(launch.stream);
  const std::string verb = use.write ? " writes " : " reads ";
  const std::string other_verb = conflict.other_wrote ? " writes" : " reads";
  if (conflict.other.life != use.memory->life)
    return "memory reused too early: " + second + verb + describe(use) + ", where " + first +
           other_verb +
           " a tensor that was freed since: call record_stream on a tensor used on "
           "another stream than the one it was made on";
  return second + verb + describe(use) + ", which " + first + other_verb +
         ": nothing orders the two; record an event after " + *conflict.other.op + " and let " +
         stream_name(launch.stream) + " wait for it";
}

std::string describe(const Use& use) {
  std::string tensor = std::to_string(use.end - use.begin) + " bytes";
  if (use.tensor)
    tensor = c10::str(c10::toString(use.tensor->scalar_type()), " ", use.tensor->sizes());
  const std::string place =
      use.memory->device < 0 ? "pinned host memory" : device_name(use.memory->device);
  return c10::str(tensor, " (bytes ", use.begin, " to ", use.end, " of allocation ",
                  use.memory->life, " at ", static_cast<const void*>(use.memory->data), ", ", place,
                  ")");
}

}  // namespace lockstep::sim
