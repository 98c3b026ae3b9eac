#pragma once

// The thread that encodes and writes events, and the bounded queue before it.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep::events {

/// Appends records to an open file. Nothing but flush() and the destructor waits for the disk.
/// When the disk refuses, the rest of the record it stopped in is kept, and tried again later.
class EventQueue {
 public:
  using Encode = std::function<std::string()>;
  using Seconds = std::chrono::duration<double>;

  /// Takes over the descriptor `file`; `path` is its name in messages.
  EventQueue(int file, std::string path, Seconds flush_every, std::size_t most_bytes);

  /// Writes what is queued, once more if the disk refused before, and closes the file.
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  /// Whether there is room for an event of about `bytes`; if so it is taken, for add(). If not,
  /// the event counts as dropped.
  bool reserve(std::size_t bytes);

  /// `encode` is called on the queue's thread and returns one record's data; if it throws, the
  /// event counts as dropped.
  void add(std::size_t reserved, Encode encode);

  void flush();
  std::int64_t dropped() const;
  std::string error() const;

 private:
  struct Item {
    std::size_t bytes;
    Encode encode;
  };
  using Clock = std::chrono::steady_clock;

  void run();
  void encode_queue();
  void write_out(bool sync);
  bool write_some();
  void settle(int error_number);

  // Constant after construction.
  const int file_;
  const std::string path_;
  const Clock::duration flush_every_;
  const std::size_t most_bytes_, wake_bytes_;

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::condition_variable changed_, served_flush_;
  std::deque<Item> queue_;
  std::size_t bytes_ = 0;  ///< reserved, queued, and encoded but not written
  std::int64_t dropped_ = 0;
  std::string error_;
  std::uint64_t asked_ = 0, served_ = 0;  ///< flushes
  bool stopping_ = false;

  // Touched by the thread only.
  std::string pending_;  ///< encoded, not written
  bool failing_ = false;
  bool unsynced_ = false;

  std::jthread thread_;
};

}  // namespace lockstep::events
