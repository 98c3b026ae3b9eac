#include "collective/barrier.h"

#include "collective/meeting.h"

namespace lockstep::collective {

void Barrier::meet() {
  std::unique_lock lock(mutex_);
  if (aborted_) throw Aborted();
  if (++waiting_ == parties_) {
    waiting_ = 0;
    ++round_;
    changed_.notify_all();
    return;
  }
  const unsigned round = round_;
  changed_.wait(lock, [&] { return round_ != round || aborted_; });
  if (round_ == round) throw Aborted();
}

void Barrier::abort() noexcept {
  const std::scoped_lock lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

bool Barrier::aborted() const noexcept {
  const std::scoped_lock lock(mutex_);
  return aborted_;
}

void Barrier::reset() {
  const std::scoped_lock lock(mutex_);
  waiting_ = 0;
  aborted_ = false;
}

}  // namespace lockstep::collective
