#pragma once

// The threads behind prefetch.

#include <lockstep/input/stream.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace lockstep::input {

struct Prefetch {
  int depth = 4;    ///< items that are ready or being made, at most
  int workers = 1;  ///< threads that make them; any number gives the same stream
  std::int64_t epochs = kEndless;
};

/// Runs numbered work ahead of its consumer and hands the results out in order. Work begins with
/// the first take(), so what nobody takes costs nothing. Workers compute with one thread each. The
/// destructor waits for work that has begun.
class Ahead {
 public:
  /// Null is the end. Called from the workers; what it throws comes out of take().
  using Work = std::function<std::shared_ptr<void>(std::int64_t number)>;

  /// Throws ConfigError unless there are a depth and workers.
  Ahead(const Prefetch& how, Work work);
  ~Ahead();
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  /// The result of the next number. After the end, or what work threw, the number stays the same;
  /// after a throw it is tried again.
  std::shared_ptr<void> take();
  std::int64_t number() const;  ///< whose result take() returns next

  /// Waits for running work to end, calls `move` while none runs, drops all results and goes on
  /// from the number that it returned. If it throws, nothing is dropped.
  void restart(const std::function<std::int64_t()>& move);

 private:
  struct Slot {
    bool done = false;
    std::shared_ptr<void> result;
    std::exception_ptr error;
  };

  void run(const std::stop_token& stop);
  Slot& slot(std::int64_t number);
  bool may_begin() const;

  const Work work_;
  mutable std::mutex mutex_;
  std::condition_variable_any begin_, done_;
  // Guarded by mutex_:
  std::vector<Slot> slots_;  // of the numbers next_ to next_ + depth - 1
  std::int64_t next_ = 0;    // to hand out
  std::int64_t fresh_ = 0;   // to begin
  int running_ = 0;
  bool asked_ = false;    // nothing is begun before take() was called
  bool failed_ = false;   // nothing is begun until take() has thrown it
  bool resting_ = false;  // nor while restart() is at work

  std::vector<std::jthread> threads_;
};

}  // namespace lockstep::input
