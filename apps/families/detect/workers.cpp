#include "families/detect/workers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::apps {
namespace {

/// What the workers of one call share.
class SharedWork {
 public:
  SharedWork(std::int64_t count, int workers, const std::function<void(std::int64_t)>& work)
      : count_(count), work_(work), running_(workers) {}

  /// What a worker does.
  void run() {
    try {
      for (std::int64_t i = next_++; i < count_; i = next_++) {
        work_(i);
        ++done_;
      }
    } catch (...) {
      stop(std::current_exception());
    }
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) ended_.notify_one();
  }

  /// Gives out no more; the first error is kept.
  void stop(std::exception_ptr error) {
    next_ = count_;
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }

  /// Waits a tenth of a second, or less if the workers end. Have they?
  bool wait() {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, std::chrono::milliseconds(100), [&] { return running_ == 0; });
  }

  std::int64_t done() const { return done_; }
  std::exception_ptr error() const { return error_; }  ///< when all have ended

 private:
  const std::int64_t count_;
  const std::function<void(std::int64_t)>& work_;
  std::atomic<std::int64_t> next_ = 0, done_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  int running_;               // guarded by mutex_
  std::exception_ptr error_;  // guarded by mutex_
};

}  // namespace

void on_workers(std::int64_t count, int workers, const std::function<void(std::int64_t)>& work,
                const std::function<void(std::int64_t done)>& progress) {
  workers = std::max(1, workers);
  SharedWork shared(count, workers, work);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < workers; ++i) threads.emplace_back([&] { shared.run(); });
    while (!shared.wait()) {
      try {
        if (progress) progress(shared.done());
      } catch (...) {
        shared.stop(std::current_exception());
        break;
      }
    }
  }
  if (shared.error()) std::rethrow_exception(shared.error());
  if (progress) progress(count);
}

}  // namespace lockstep::apps
