#pragma once

// Requests that come at once are computed together, by one thread.

#include <lockstep/seconds.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::apps {

/// Too many requests wait already: HTTP's 503.
struct Busy : std::runtime_error {
  Busy() : std::runtime_error("too many requests at once: try again in a moment") {}
};

/// An answer was not there in time: HTTP's 504.
struct TooLate : std::runtime_error {
  TooLate()
      : std::runtime_error("it takes too long: send less, or start with a larger --timeout") {}
};

struct ServeLimits {
  std::size_t together = 32;  ///< requests that are computed at a time, at most
  std::size_t waiting = 64;   ///< requests that may wait
  Seconds timeout{30};        ///< for an answer
};

template <class In, class Out>
class Batcher {
 public:
  /// `run` makes as many answers as it gets requests, on a thread of the Batcher's. If it throws,
  /// all of them throw the same.
  using RunAll = std::function<std::vector<Out>(const std::vector<In>&)>;

  Batcher(RunAll run, const ServeLimits& limits)
      : run_(std::move(run)),
        limits_(limits),
        thread_([this](std::stop_token stop) { work(stop); }) {}

  /// The answer to one request. Throws Busy, TooLate, and what `run` threw.
  Out ask(In request) {
    std::future<Out> answer;
    {
      const std::lock_guard guard(mutex_);
      if (waiting_.size() >= limits_.waiting) throw Busy();
      waiting_.push_back({std::move(request), {}});
      answer = waiting_.back().answer.get_future();
    }
    arrived_.notify_one();
    if (answer.wait_for(limits_.timeout) != std::future_status::ready) throw TooLate();
    return answer.get();
  }

  /// Requests that nobody computes yet.
  std::size_t waiting() const {
    const std::lock_guard guard(mutex_);
    return waiting_.size();
  }

  /// The most requests that were computed at a time.
  std::size_t most_together() const {
    const std::lock_guard guard(mutex_);
    return most_;
  }

 private:
  struct Waiting {
    In request;
    std::promise<Out> answer;
  };

  std::vector<Waiting> take(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, stop, [this] { return !waiting_.empty(); });
    std::vector<Waiting> taken;
    while (!waiting_.empty() && taken.size() < limits_.together) {
      taken.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    most_ = std::max(most_, taken.size());
    return taken;
  }

  void work(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<Waiting> taken = take(stop);
      if (taken.empty()) continue;
      std::vector<In> requests;
      for (Waiting& one : taken) requests.push_back(std::move(one.request));
      try {
        std::vector<Out> answers = run_(requests);
        for (std::size_t i = 0; i < taken.size(); ++i)
          taken[i].answer.set_value(std::move(answers.at(i)));
      } catch (...) {
        for (Waiting& one : taken) fail(one, std::current_exception());
      }
    }
  }

  /// What has its answer already keeps it.
  static void fail(Waiting& one, const std::exception_ptr& error) {
    try {
      one.answer.set_exception(error);
    } catch (const std::future_error&) {
    }
  }

  const RunAll run_;
  const ServeLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::deque<Waiting> waiting_;  ///< guarded by mutex_
  std::size_t most_ = 0;         ///< guarded by mutex_
  std::jthread thread_;          ///< last: it uses all of the above
};

}  // namespace lockstep::apps
