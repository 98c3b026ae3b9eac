#pragma once

// A barrier that can be called off.

#include <condition_variable>
#include <mutex>

namespace lockstep::collective {

/// `parties` threads meet, again and again. Everything written before `meet` by one of them is seen
/// after it by all.
class Barrier {
 public:
  explicit Barrier(int parties) : parties_(parties) {}

  /// Returns when all parties are here. Throws Aborted if `abort` came first.
  void meet();

  void abort() noexcept;
  bool aborted() const noexcept;
  void reset();  ///< after an abort, when nobody is inside

 private:
  const int parties_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  int waiting_ = 0;
  unsigned round_ = 0;
  bool aborted_ = false;
};

}  // namespace lockstep::collective
