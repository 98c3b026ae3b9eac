#pragma once

// Machines over the loopback network, as threads of the test's process.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "machines/network_machines.h"
#include "ranks.h"

namespace ranks {

using lockstep::MachinesOptions;

/// A port that nobody has at the moment.
inline std::string free_port() {
  const lockstep::machines::Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(socket.handle(), reinterpret_cast<sockaddr*>(&address), size), 0);
  getsockname(socket.handle(), reinterpret_cast<sockaddr*>(&address), &size);
  return std::to_string(ntohs(address.sin_port));
}

inline MachinesOptions options_of(int machine, int machines, const std::string& port) {
  return {.machine = machine,
          .machines = machines,
          .first = "127.0.0.1:" + port,
          .name = "machine-" + std::to_string(machine),
          .secret = "a secret of the tests",
          .start = Seconds(20)};
}

/// All join at once, with the options as `change` leaves them.
inline Group network(
    int machines, const std::function<void(MachinesOptions&)>& change = [](MachinesOptions&) {}) {
  const std::string port = free_port();
  Group group(static_cast<std::size_t>(machines));
  std::vector<std::exception_ptr> errors(group.size());
  {
    std::vector<std::jthread> threads;
    for (int machine = 0; machine < machines; ++machine)
      threads.emplace_back([&, machine] {
        MachinesOptions options = options_of(machine, machines, port);
        change(options);
        try {
          group[static_cast<std::size_t>(machine)] = lockstep::join(options);
        } catch (...) {
          errors[static_cast<std::size_t>(machine)] = std::current_exception();
        }
      });
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return group;
}

inline lockstep::machines::NetworkMachines& network_machine(Machines& machine) {
  return dynamic_cast<lockstep::machines::NetworkMachines&>(machine);
}

}  // namespace ranks
