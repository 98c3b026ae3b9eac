#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "machines/message.h"
#include "machines/socket.h"

namespace lockstep::machines {

/// Messages over a socket that never blocks. One thread reads; any may send.
class Connection {
 public:
  explicit Connection(Socket socket) : socket_(std::move(socket)) {}

  int handle() const { return socket_.handle(); }

  /// Queues a message and writes what the socket takes. What is left needs flush(), when the socket
  /// can be written. Returns whether something is left.
  bool send(Packed message);
  bool flush();
  bool has_more_to_send() const;

  /// Reads what has come, and calls `take` for every whole message. Returns false when the other
  /// side has closed the connection or it broke. Throws BadMessage.
  bool read(const std::function<void(Message)>& take);

  /// When something last came: any byte counts.
  Clock::time_point heard() const { return heard_; }

  /// Counts as heard a while later, for the time in which this side did not listen.
  void forgive(Clock::duration while_away) { heard_ += while_away; }

  /// Nothing more will be sent.
  void end_sending();

 private:
  bool write_some();
  void take_whole_messages(const std::function<void(Message)>& take);

  const Socket socket_;

  // Touched by the thread that reads.
  Clock::time_point heard_ = Clock::now();
  Bytes piece_ = Bytes(std::size_t{128} << 10U);
  Bytes come_;  // what is not yet a whole message

  mutable std::mutex mutex_;
  std::deque<Packed> queue_;  // guarded by mutex_
  std::size_t sent_ = 0;      // of the first of the queue
};

}  // namespace lockstep::machines
