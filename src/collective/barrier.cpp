#include "collective/barrier.h"

#include "collective/meeting.h"

namespace lockstep::collective {

void Barrier::meet() {
  std::unique_lock lock(mutex_);
  if (aborted_) throw Aborted();
  const unsigned round = round_;
  if (++waiting_ == parties_) {
    waiting_ = 0;
    ++round_;
    changed_.notify_all();
    return;
  }
  const auto over = [&] { return round_ != round || aborted_; };
  if (spins_) {
    lock.unlock();
    if (!spin_.until(over)) lock.lock();
  }
  if (lock.owns_lock()) changed_.wait(lock, over);
  if (round_ == round) throw Aborted();
}

void Barrier::abort() noexcept {
  const std::scoped_lock lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

void Barrier::reset() {
  const std::scoped_lock lock(mutex_);
  waiting_ = 0;
  aborted_ = false;
}

}  // namespace lockstep::collective
