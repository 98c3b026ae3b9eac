#include <ATen/Parallel.h>
#include <lockstep/input/ahead.h>

#include <utility>

namespace lockstep::input {

Ahead::Ahead(const Prefetch& how, Work work) : work_(std::move(work)) {
  if (how.depth < 1 || how.workers < 1)
    throw ConfigError("prefetch: a depth and workers of at least 1 are needed, not a depth of " +
                      std::to_string(how.depth) + " and " + std::to_string(how.workers) +
                      " workers");
  slots_.resize(static_cast<std::size_t>(how.depth));
  for (int i = 0; i < how.workers; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
}

Ahead::~Ahead() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

Ahead::Slot& Ahead::slot(std::int64_t number) {
  return slots_[static_cast<std::size_t>(number) % slots_.size()];
}

bool Ahead::may_begin() const {
  return asked_ && !failed_ && !resting_ &&
         fresh_ - next_ < static_cast<std::int64_t>(slots_.size());
}

void Ahead::run(const std::stop_token& stop) {
  at::set_num_threads(1);  // of this thread alone
  std::unique_lock lock(mutex_);
  while (begin_.wait(lock, stop, [this] { return may_begin(); }) && !stop.stop_requested()) {
    const std::int64_t number = fresh_++;
    ++running_;
    lock.unlock();
    Slot made{.done = true, .result = nullptr, .error = nullptr};
    try {
      made.result = work_(number);
    } catch (...) {
      made.error = std::current_exception();
    }
    lock.lock();
    --running_;
    failed_ = failed_ || made.error;
    slot(number) = std::move(made);
    done_.notify_all();
  }
}

std::shared_ptr<void> Ahead::take() {
  std::unique_lock lock(mutex_);
  if (!std::exchange(asked_, true)) begin_.notify_all();
  done_.wait(lock, [this] { return slot(next_).done; });
  if (const std::exception_ptr error = slot(next_).error) {
    const std::int64_t again = next_;
    lock.unlock();
    restart([again] { return again; });
    std::rethrow_exception(error);
  }
  if (!slot(next_).result) return nullptr;
  std::shared_ptr<void> result = std::exchange(slot(next_), {}).result;
  ++next_;
  lock.unlock();
  begin_.notify_one();
  return result;
}

std::int64_t Ahead::number() const {
  const std::scoped_lock lock(mutex_);
  return next_;
}

void Ahead::restart(const std::function<std::int64_t()>& move) {
  std::unique_lock lock(mutex_);
  resting_ = true;
  done_.wait(lock, [this] { return running_ == 0; });
  lock.unlock();
  std::exception_ptr refused;
  std::int64_t first = 0;
  try {
    first = move();
  } catch (...) {
    refused = std::current_exception();
  }
  lock.lock();
  if (!refused) {
    next_ = fresh_ = first;
    failed_ = false;
    for (Slot& each : slots_) each = {};
  }
  resting_ = false;
  lock.unlock();
  begin_.notify_all();
  if (refused) std::rethrow_exception(refused);
}

}  // namespace lockstep::input
