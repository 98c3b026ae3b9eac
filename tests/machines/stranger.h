#pragma once

// Somebody on the network who is no machine of the group.

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

#include "machines/socket.h"
#include "ranks.h"

namespace ranks {

class Stranger {
 public:
  explicit Stranger(const std::string& port, const char* host = "127.0.0.1")
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    inet_pton(AF_INET, host, &address.sin_addr);
    connected_ =
        connect(socket_.handle(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

  bool connected() const { return connected_; }

  void say(const Bytes& bytes) const {
    ::send(socket_.handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  /// All that comes until the other side closes the connection. Fails after `limit`.
  std::string hear(Seconds limit = Seconds(5)) const {
    std::string heard;
    const auto begin = Clock::now();
    while (since(begin) < limit) {
      pollfd ready = {.fd = socket_.handle(), .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 100) <= 0) continue;
      char piece[4096];
      const ssize_t count = recv(socket_.handle(), piece, sizeof piece, 0);
      if (count <= 0) return heard;
      heard.append(piece, static_cast<std::size_t>(count));
    }
    ADD_FAILURE() << "the connection is still open";
    return heard;
  }

 private:
  lockstep::machines::Socket socket_;
  bool connected_ = false;
};

}  // namespace ranks
