#include "machines/connection.h"

#include <sys/socket.h>

#include <cerrno>

namespace lockstep::machines {
namespace {

/// Pieces that are read in one go, so that one machine does not keep others waiting.
constexpr int kPieces = 16;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

bool Connection::send(Packed message) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(message));
  return queue_.size() > 1 || write_some();
}

bool Connection::flush() {
  const std::lock_guard lock(mutex_);
  return write_some();
}

bool Connection::has_more_to_send() const {
  const std::lock_guard lock(mutex_);
  return !queue_.empty();
}

/// With the mutex held. A connection that broke takes everything: reading finds out.
bool Connection::write_some() {
  while (!queue_.empty()) {
    const auto rest = std::span(*queue_.front()).subspan(sent_);
    const ssize_t count = ::send(handle(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      if (would_block()) return true;
      queue_.clear();
      sent_ = 0;
      return false;
    }
    sent_ += static_cast<std::size_t>(count);
    if (sent_ < queue_.front()->size()) continue;
    queue_.pop_front();
    sent_ = 0;
  }
  return false;
}

bool Connection::read(const std::function<void(Message)>& take) {
  bool open = true;
  for (int piece = 0; piece < kPieces; ++piece) {
    const ssize_t count = recv(handle(), piece_.data(), piece_.size(), MSG_DONTWAIT);
    if (count <= 0) {
      open = count < 0 && would_block();
      break;
    }
    heard_ = Clock::now();
    come_.insert(come_.end(), piece_.begin(), piece_.begin() + count);
    if (static_cast<std::size_t>(count) < piece_.size()) break;
  }
  take_whole_messages(take);
  return open;
}

void Connection::take_whole_messages(const std::function<void(Message)>& take) {
  std::size_t begin = 0;
  while (come_.size() - begin >= kHeadBytes) {
    const auto rest = std::span(come_).subspan(begin);
    const auto [kind, size] = head_of(rest.first(kHeadBytes));
    if (rest.size() < kHeadBytes + size) break;
    const auto body = rest.subspan(kHeadBytes, size);
    begin += kHeadBytes + size;
    take({.kind = kind, .body = Bytes(body.begin(), body.end())});
  }
  come_.erase(come_.begin(), come_.begin() + static_cast<std::ptrdiff_t>(begin));
}

void Connection::end_sending() { shutdown(handle(), SHUT_WR); }

}  // namespace lockstep::machines
