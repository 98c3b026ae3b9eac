#pragma once

// A progress line on a terminal; a plain line now and then elsewhere.

#include <chrono>
#include <string>

namespace lockstep::apps {

class Progress {
 public:
  /// `title` stands before the bar; `total` is the number of steps.
  Progress(std::string title, long total);

  /// Shows that `done` steps are done, with `text` behind the bar.
  void show(long done, const std::string& text);

  /// Ends the line; `text` stays.
  void finish(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  const std::string title_;
  const long total_;
  const bool terminal_;
  const Clock::time_point begin_;
  Clock::time_point shown_;
};

}  // namespace lockstep::apps
