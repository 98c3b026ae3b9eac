#include "machines/socket.h"

#include <fcntl.h>
#include <lockstep/error.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "machines/interfaces.h"

namespace lockstep::machines {
namespace {

namespace fs = std::filesystem;

/// Calls use(handle, name) for each open socket.
template <class Use>
void for_sockets(const Use& use) {
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    const std::string name = fs::read_symlink(entry, closed);
    if (name.starts_with("socket:")) use(std::stoi(entry.path().filename()), name);
  }
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// `error` is what getaddrinfo says, empty if all went well.
Addresses resolve(const Endpoint& endpoint, std::string& error) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(endpoint.host.c_str(), endpoint.port.c_str(), &wanted, &found);
  error = code == 0 ? "" : gai_strerror(code);
  return Addresses(code == 0 ? found : nullptr);
}

Socket tcp_socket(const addrinfo& address) {
  Socket socket(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (socket) setsockopt(socket.handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

std::string address_text(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = "";
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "an unknown address";
  return host;
}

/// Connects within a moment; returns the errno, or 0.
int try_to_connect(const Socket& socket, const addrinfo& address, Clock::time_point deadline) {
  make_nonblocking(socket);
  if (connect(socket.handle(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd ready = {.fd = socket.handle(), .events = POLLOUT, .revents = 0};
  const auto limit = std::min(deadline, Clock::now() + std::chrono::seconds(2));
  if (poll(&ready, 1, milliseconds_until(limit)) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket.handle(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

std::set<std::string> open_sockets() {
  std::set<std::string> names;
  for_sockets([&](int, const std::string& name) { names.insert(name); });
  return names;
}

void limit_silence(Seconds limit, const std::set<std::string>& known) {
  const auto milliseconds = static_cast<unsigned>(limit.count() * 1000);
  for_sockets([&](int handle, const std::string& name) {
    if (!known.contains(name))  // of TCP; others refuse it
      setsockopt(handle, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
  });
}

void Socket::close() {
  if (handle_ >= 0) ::close(handle_);
  handle_ = -1;
}

std::string Endpoint::text() const {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
}

Endpoint parse_endpoint(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  Endpoint endpoint;
  if (colon != std::string::npos) {
    endpoint = {.host = text.substr(0, colon), .port = text.substr(colon + 1)};
    if (endpoint.host.size() > 2 && endpoint.host.front() == '[' && endpoint.host.back() == ']')
      endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    else if (endpoint.host.find(':') != std::string::npos)
      endpoint.host.clear();
  }
  const bool digits = !endpoint.port.empty() && endpoint.port.size() <= 5 &&
                      std::all_of(endpoint.port.begin(), endpoint.port.end(),
                                  [](char c) { return c >= '0' && c <= '9'; });
  if (endpoint.host.empty() || !digits || std::stoi(endpoint.port) < 1 ||
      std::stoi(endpoint.port) > 65535)
    throw ConfigError("the first machine's address is \"" + text +
                      "\": write HOST:PORT, for example 10.0.0.1:29500 or [fd00::1]:29500");
  return endpoint;
}

Socket listen_on(const Endpoint& asked) {
  const Endpoint endpoint = reachable_by_others(asked);
  std::string error;
  const Addresses addresses = resolve(endpoint, error);
  if (!addresses)
    throw ConfigError("the first machine's host " + endpoint.host + " is not known here: " + error +
                      "; write its address instead");
  Socket socket = tcp_socket(*addresses);
  const int on = 1;
  setsockopt(socket.handle(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket.handle(), addresses->ai_addr, addresses->ai_addrlen) != 0 ||
      ::listen(socket.handle(), 128) != 0) {
    const int number = errno;
    const std::string advice =
        number == EADDRINUSE
            ? "end the program that listens there, or choose another port"
            : "the first machine must be this one: check its address, and the numbers of machines";
    throw ConfigError("cannot listen on " + endpoint.text() + ": " + std::strerror(number) + "; " +
                      advice);
  }
  make_nonblocking(socket);
  return socket;
}

Socket accept_from(const Socket& listener) {
  Socket socket(accept4(listener.handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int on = 1;
  if (socket) setsockopt(socket.handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

Socket connect_to(const Endpoint& endpoint, Clock::time_point deadline, std::string& why) {
  for (;;) {
    const Addresses addresses = resolve(endpoint, why);
    for (const addrinfo* address = addresses.get(); address; address = address->ai_next) {
      Socket socket = tcp_socket(*address);
      const int error = socket ? try_to_connect(socket, *address, deadline) : errno;
      if (error == 0) return socket;
      why = std::strerror(error);
    }
    if (Clock::now() >= deadline) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

std::pair<Socket, Socket> connected_pair() {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    throw IoError("socketpair", "open", errno);
  return {Socket(ends[0]), Socket(ends[1])};
}

std::string local_address(const Socket& socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  getsockname(socket.handle(), reinterpret_cast<sockaddr*>(&address), &size);
  return address_text(address, size);
}

std::string peer_address(const Socket& socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  getpeername(socket.handle(), reinterpret_cast<sockaddr*>(&address), &size);
  return address_text(address, size);
}

void make_nonblocking(const Socket& socket) {
  fcntl(socket.handle(), F_SETFL, fcntl(socket.handle(), F_GETFL) | O_NONBLOCK);
}

int milliseconds_until(Clock::time_point then) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(then - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3600000));
}

}  // namespace lockstep::machines
