#pragma once

// A barrier that can be called off.

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/spin.h"

namespace lockstep::collective {

/// `parties` threads meet, again and again. Everything written before `meet` by one of them is seen
/// after it by all.
class Barrier {
 public:
  /// `spins`: every party has a core of its own, and waits for a moment before it sleeps.
  explicit Barrier(int parties, bool spins = false) : parties_(parties), spins_(spins) {}

  /// Returns when all parties are here. Throws Aborted if `abort` came first.
  void meet();

  void abort() noexcept;
  bool aborted() const noexcept { return aborted_; }
  void reset();  ///< after an abort, when nobody is inside

 private:
  const int parties_;
  const bool spins_;
  base::Spin spin_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;  // guarded by mutex_
  // Written under mutex_.
  std::atomic<unsigned> round_ = 0;
  std::atomic<bool> aborted_ = false;
};

}  // namespace lockstep::collective
