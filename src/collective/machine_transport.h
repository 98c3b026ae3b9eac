#pragma once

// How bytes move between accelerators of several machines.

#include <lockstep/machines.h>

#include <memory>
#include <vector>

#include "collective/transport.h"

namespace lockstep::collective {

/// For towers on `devices`, those of all machines; `towers` by machine: how many. All machines make
/// it together. Between GPUs it is one communicator of NCCL over all of them; simulated devices
/// copy inside a machine, and send through the host's memory from one to the other.
std::unique_ptr<Transport> make_machine_transport(TransportKind kind,
                                                  const std::shared_ptr<Machines>& machines,
                                                  const std::vector<int>& towers,
                                                  const std::vector<Device>& devices);

}  // namespace lockstep::collective
