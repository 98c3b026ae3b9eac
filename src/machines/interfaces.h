#pragma once

#include "machines/socket.h"

namespace lockstep::machines {

/// Where the first machine listens when it was asked to listen there. Many systems map a host's own
/// name to 127.0.1.1, where no other machine could reach it: then it is the address of the one
/// network this machine is in. Throws ConfigError when there are several, and for an address that
/// means all of them, such as 0.0.0.0.
Endpoint reachable_by_others(const Endpoint& asked);

/// Whether an address, or a name of one, is of this machine.
bool is_own_address(const std::string& host);

}  // namespace lockstep::machines
