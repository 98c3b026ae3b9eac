#include "strategy/stage_clock.h"

#include "device/accelerator.h"

namespace lockstep::strategy {

const char* name_of(Stage stage) {
  constexpr std::array kNames = {"input", "forward", "backward", "reduce", "update", "wait"};
  return kNames[static_cast<std::size_t>(stage)];
}

void StageClock::start(Seconds waited) {
  marks_.clear();
  spans_.clear();
  times_ = {};
  enter(Stage::input, waited);
}

void StageClock::enter(Stage stage, Seconds waited) {
  stage_ = stage;
  mark(stage, waited);
}

void StageClock::mark(Stage stage, Seconds waited) {
  Mark& mark = marks_.emplace_back(Mark{stage, waited, device::host_now(device_.kind), {}});
  if (!device::is_accelerator(device_.kind)) return;
  const c10::Stream stream = device::current_stream(device_);
  mark.event.emplace(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);
  mark.event->record(stream);
}

Seconds StageClock::between(const Mark& begin, const Mark& end) const {
  if (!begin.event) return end.at - begin.at;
  return std::chrono::duration<double, std::milli>(begin.event->elapsedTime(*end.event));
}

void StageClock::stop(Seconds waited) {
  mark(stage_, waited);
  if (marks_.back().event) marks_.back().event->synchronize();
  for (std::size_t i = 0; i + 1 < marks_.size(); ++i) {
    const Mark &begin = marks_[i], &end = marks_[i + 1];
    const Seconds idle = end.waited - begin.waited;
    times_[static_cast<std::size_t>(begin.stage)] += between(begin, end) - idle;
    times_[static_cast<std::size_t>(Stage::wait)] += idle;
    const Seconds since = marks_.front().at + between(marks_.front(), begin);
    spans_.push_back({begin.stage, since, since + between(begin, end)});
  }
  marks_.clear();
}

}  // namespace lockstep::strategy
