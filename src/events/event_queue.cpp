#include "events/event_queue.h"

#include <lockstep/error.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "events/records.h"

namespace lockstep::events {
namespace {

constexpr EventQueue::Seconds kLongest{86400};        // what a clock can add to any time
constexpr std::size_t kWake = std::size_t{1} << 20U;  // queued bytes that do not wait for the time

}  // namespace

EventQueue::EventQueue(int file, std::string path, Seconds flush_every, std::size_t most_bytes)
    : file_(file),
      path_(std::move(path)),
      flush_every_(std::chrono::duration_cast<Clock::duration>(std::min(flush_every, kLongest))),
      most_bytes_(most_bytes),
      wake_bytes_(std::min(kWake, most_bytes / 2)),
      thread_([this] { run(); }) {}

EventQueue::~EventQueue() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
  ::close(file_);
}

bool EventQueue::reserve(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const bool fits = bytes_ <= most_bytes_ && bytes <= most_bytes_ - bytes_;
  if (fits)
    bytes_ += bytes;
  else
    ++dropped_;
  return fits;
}

void EventQueue::add(std::size_t reserved, Encode encode) {
  bool wake = false;
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back({reserved, std::move(encode)});
    wake = bytes_ >= wake_bytes_;
  }
  if (wake) changed_.notify_one();
}

void EventQueue::flush() {
  std::unique_lock lock(mutex_);
  const std::uint64_t mine = ++asked_;
  changed_.notify_one();
  served_flush_.wait(lock, [&] { return served_ >= mine; });
}

std::int64_t EventQueue::dropped() const {
  const std::scoped_lock lock(mutex_);
  return dropped_;
}

std::string EventQueue::error() const {
  const std::scoped_lock lock(mutex_);
  return error_;
}

void EventQueue::run() {
  Clock::time_point due = Clock::now() + flush_every_;
  for (bool last = false; !last;) {
    std::uint64_t asked = 0;
    bool sync = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, due, [&] {
        const bool much = !failing_ && !queue_.empty() && bytes_ >= wake_bytes_;
        return stopping_ || asked_ > served_ || much;
      });
      last = stopping_;
      asked = asked_;
      sync = last || asked > served_ || Clock::now() >= due;
    }
    if (failing_ && sync) write_out(sync);
    if (!failing_) {
      encode_queue();
      write_out(sync);
    }
    if (sync) due = Clock::now() + flush_every_;
    {
      const std::scoped_lock lock(mutex_);
      served_ = asked;
    }
    served_flush_.notify_all();
  }
}

/// Turns all that is queued into records in `pending_`.
void EventQueue::encode_queue() {
  std::deque<Item> batch;
  {
    const std::scoped_lock lock(mutex_);
    batch.swap(queue_);
  }
  for (; !batch.empty(); batch.pop_front()) {
    std::string bytes;
    bool encoded = true;
    try {
      bytes = record(batch.front().encode());
      pending_ += bytes;
    } catch (const std::exception&) {
      bytes.clear();
      encoded = false;
    }
    const std::scoped_lock lock(mutex_);
    bytes_ = bytes_ - batch.front().bytes + bytes.size();
    if (!encoded) ++dropped_;
  }
}

/// Writes `pending_` as far as the disk takes it, and notes how that went.
void EventQueue::write_out(bool sync) {
  if (!write_some()) return;
  if (sync && unsynced_) {
    // EINVAL: a pipe or a device, which has nothing to sync.
    if (::fdatasync(file_) < 0 && errno != EINVAL) return settle(errno);
    unsynced_ = false;
  }
  settle(0);
}

bool EventQueue::write_some() {
  std::size_t done = 0;
  int trouble = 0;
  while (done < pending_.size() && trouble == 0) {
    const ::ssize_t got = ::write(file_, pending_.data() + done, pending_.size() - done);
    if (got > 0)
      done += static_cast<std::size_t>(got);
    else if (got == 0 || errno != EINTR)
      trouble = got == 0 ? EIO : errno;
  }
  unsynced_ = unsynced_ || done > 0;
  pending_ = pending_.substr(done);  // gives the memory back
  {
    const std::scoped_lock lock(mutex_);
    bytes_ -= done;
  }
  if (trouble != 0) settle(trouble);
  return trouble == 0;
}

/// Notes why the disk refused, or with 0 that it did not.
void EventQueue::settle(int error_number) {
  failing_ = error_number != 0;
  const std::scoped_lock lock(mutex_);
  error_ = failing_ ? IoError(path_, "write", error_number).what() : "";
}

}  // namespace lockstep::events
