#pragma once

// A line on a terminal that is written over; nothing elsewhere.

#include <chrono>
#include <string>

namespace lockstep::apps {

class StatusLine {
 public:
  StatusLine();
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  bool terminal() const { return terminal_; }

  /// Is it time to show something new? Ten times a second on a terminal, never elsewhere.
  bool due() const;
  void show(const std::string& text);

  /// Prints a line that stays.
  void print(const std::string& text);

  /// Clears it, before something goes to the error stream.
  void erase();

 private:
  const bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

/// "[#####.....]" for a part from 0 to 1.
std::string bar(double part, int width);

/// `value` through a printf pattern.
std::string format(const char* pattern, double value);

}  // namespace lockstep::apps
