#pragma once

// Tasks from one producer to the towers, a few ahead at most.

#include <lockstep/detail/place.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

namespace lockstep::strategy {

struct NumberedTask {
  std::int64_t number = 0;  ///< from 0, in order of production
  std::function<void(detail::Place place)> run;
};

class TaskQueue {
 public:
  explicit TaskQueue(std::size_t capacity) : capacity_(capacity) {}

  /// Waits for room. False when the queue was closed: the task was not taken.
  bool push(NumberedTask task) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || tasks_.size() < capacity_; });
    if (closed_) return false;
    tasks_.push_back(std::move(task));
    changed_.notify_all();
    return true;
  }

  /// Waits for a task; none when the queue is closed and empty.
  std::optional<NumberedTask> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
    if (tasks_.empty()) return std::nullopt;
    NumberedTask task = std::move(tasks_.front());
    tasks_.pop_front();
    changed_.notify_all();
    return task;
  }

  /// No more tasks; those inside are still handed out.
  void close() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  /// No more tasks, and those inside are dropped.
  void cancel() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    tasks_.clear();
    changed_.notify_all();
  }

 private:
  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<NumberedTask> tasks_;
  bool closed_ = false;
};

}  // namespace lockstep::strategy
