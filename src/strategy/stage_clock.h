#pragma once

// The clock that says where a tower's time went.

#include <c10/core/Event.h>
#include <lockstep/device.h>
#include <lockstep/report.h>

#include <array>
#include <chrono>
#include <optional>
#include <vector>

namespace lockstep::strategy {

enum class Stage { input, forward, backward, reduce, update, wait };

const char* name_of(Stage stage);

/// Adds up the time spent in each stage; what the collective spent waiting goes to `wait`. On an
/// accelerator stages are marked by events on the stream, and their times are the device's.
class StageClock {
 public:
  explicit StageClock(const Device& device) : device_(device) {}

  void start(Seconds waited);
  void enter(Stage stage, Seconds waited);
  void stop(Seconds waited);  ///< waits for the device

  Stage stage() const { return stage_; }
  Seconds in(Stage stage) const { return times_[static_cast<std::size_t>(stage)]; }

  /// The stages since start(), one after the other, by the host's clock.
  struct Span {
    Stage stage;
    Seconds begin, end;
  };
  const std::vector<Span>& spans() const { return spans_; }

 private:
  struct Mark {
    Stage stage;
    Seconds waited, at;
    std::optional<c10::Event> event;
  };

  void mark(Stage stage, Seconds waited);
  Seconds between(const Mark& begin, const Mark& end) const;

  const Device device_;
  Stage stage_ = Stage::input;
  std::vector<Mark> marks_;
  std::vector<Span> spans_;
  std::array<Seconds, 6> times_{};
};

}  // namespace lockstep::strategy
