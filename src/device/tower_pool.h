#pragma once

// The towers' threads: one a device, kept for the life of the pool.

#include <lockstep/device.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/spin.h"

namespace lockstep::device {

/// Runs a job on every tower's thread at once. Inside a job the thread is on its device, has its
/// intra-op threads and grad mode on. Use from one thread at a time.
class TowerPool {
 public:
  explicit TowerPool(std::vector<Device> devices);

  int size() const { return static_cast<int>(devices_.size()); }
  const Device& device(int tower) const { return devices_[static_cast<std::size_t>(tower)]; }

  /// Whether each thread of each tower has a core of its own.
  bool has_cores() const { return spare_cores_ >= 0; }

  /// Calls job(tower) on each tower's thread and returns when all are done. Rethrows the exception
  /// of the lowest tower that has one.
  void run(const std::function<void(int tower)>& job);

  /// The two halves of `run`: between them the caller does something else. `job` must live on.
  void start(const std::function<void(int tower)>& job);
  void finish();

 private:
  void serve(int tower, const std::stop_token& stop);
  bool await_round(int tower, std::uint64_t done, base::Spin& spin, const std::stop_token& stop);
  void end_round(int tower);

  const std::vector<Device> devices_;
  const int spare_cores_;  // beside those of the towers; less than 0 if they have too few

  base::Spin callers_spin_, end_spin_;  // the caller's; the first tower's at the end of a round

  std::mutex mutex_;
  std::condition_variable_any started_;
  std::condition_variable finished_;
  const std::function<void(int)>* job_ = nullptr;  // of this round
  std::vector<std::exception_ptr> errors_;         // of this round: each tower writes its own
  // Written under mutex_.
  std::atomic<std::uint64_t> round_ = 0;
  std::atomic<int> running_ = 0;

  std::vector<std::jthread> threads_;  // last: the threads use what is above
};

}  // namespace lockstep::device
