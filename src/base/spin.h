#pragma once

// Waiting without sleeping, for a moment.

#include <algorithm>
#include <atomic>
#include <chrono>

namespace lockstep::base {

/// A thread that has a core of its own looks for a moment before it sleeps, as long as that pays:
/// after a wait that was longer the next ones sleep at once, and more of them each time. So little
/// is lost when something else runs on the cores. Any thread.
class Spin {
 public:
  /// True when `done` came true within the moment.
  template <class Done>
  bool until(const Done& done) {
    if (int skips = skips_; skips > 0) {
      skips_ = skips - 1;
      return done();
    }
    if (look(done)) {
      penalty_ = 1;
      return true;
    }
    const int penalty = penalty_;
    skips_ = penalty;
    penalty_ = std::min(2 * penalty, kMostSkips);
    return false;
  }

 private:
  static constexpr std::chrono::microseconds kMoment{50};  // to sleep and to be woken takes as long
  static constexpr int kMostSkips = 64;

  template <class Done>
  static bool look(const Done& done) {
    constexpr int kLooks = 32;  // between two looks at the clock
    const auto end = std::chrono::steady_clock::now() + kMoment;
    do {
      for (int i = 0; i < kLooks; ++i) {
        if (done()) return true;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
      }
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  // A guess, so threads may overwrite each other's.
  std::atomic<int> skips_ = 0;    // waits to come that sleep at once
  std::atomic<int> penalty_ = 1;  // as many after the next one that does not pay
};

}  // namespace lockstep::base
