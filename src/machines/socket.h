#pragma once

// TCP as the machines use it: every socket is closed on exec and sends small messages at once.

#include <lockstep/seconds.h>

#include <chrono>
#include <set>
#include <string>
#include <utility>

namespace lockstep::machines {

using Clock = std::chrono::steady_clock;

/// An open socket, or none.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int handle) : handle_(handle) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    close();
    handle_ = std::exchange(other.handle_, -1);
    return *this;
  }

  int handle() const { return handle_; }
  explicit operator bool() const { return handle_ >= 0; }
  void close();

 private:
  int handle_ = -1;
};

/// The sockets of this process, as the kernel names them.
std::set<std::string> open_sockets();

/// From now on, bytes that nobody acknowledges for so long break the connection of each TCP socket
/// that is not among `known`. However slow the other side is, it acknowledges what it takes.
void limit_silence(Seconds limit, const std::set<std::string>& known);

struct Endpoint {
  std::string host;
  std::string port;

  std::string text() const;
};

/// Of "host:port" or "[address]:port". Throws ConfigError.
Endpoint parse_endpoint(const std::string& text);

/// Listens on that address and no other. Throws ConfigError when the host is not this machine, or
/// the port is taken.
Socket listen_on(const Endpoint& endpoint);

/// The next who has connected, without waiting; none if there is nobody. It does not block.
Socket accept_from(const Socket& listener);

/// Connects, trying again until the deadline. Returns no socket then, and `why` says what the last
/// attempt met.
Socket connect_to(const Endpoint& endpoint, Clock::time_point deadline, std::string& why);

/// Two ends of a connection inside this process; they do not block.
std::pair<Socket, Socket> connected_pair();

/// The numeric address of this side, and of the other.
std::string local_address(const Socket& socket);
std::string peer_address(const Socket& socket);

void make_nonblocking(const Socket& socket);

inline Clock::duration ticks(Seconds seconds) {
  return std::chrono::duration_cast<Clock::duration>(seconds);
}

/// Milliseconds until then, for poll(2): at least 0.
int milliseconds_until(Clock::time_point then);

}  // namespace lockstep::machines
