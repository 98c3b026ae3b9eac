#include <lockstep/error.h>
#include <lockstep/machines.h>
#include <unistd.h>

#include <array>

#include "machines/interfaces.h"
#include "machines/network_machines.h"
#include "machines/thread_machines.h"

namespace lockstep {
namespace {

std::string host_name() {
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "host";
  return name.data();
}

void check_options(const MachinesOptions& options) {
  if (options.machines < 1)
    throw ConfigError("there are to be " + std::to_string(options.machines) +
                      " machines: ask for at least 1");
  if (options.machine < 0 || options.machine >= options.machines)
    throw ConfigError("there is no machine " + std::to_string(options.machine) + " among " +
                      std::to_string(options.machines) + ": they are numbered from 0");
  if (options.name.size() > 200 || options.address.size() > 200)
    throw ConfigError("a machine's name and address have at most 200 characters");
  if (options.start <= Seconds(0) || options.silence < Seconds(1))
    throw ConfigError(
        "machines need time: more than 0 s for the start, and 1 s or more of silence before one "
        "is lost");
  if (options.machines > 1 && options.first.empty())
    throw ConfigError(
        "the first machine's address is not known: set LOCKSTEP_FIRST or --machines to its "
        "HOST:PORT on all machines");
  if (!options.address.empty() && !machines::is_own_address(options.address))
    throw ConfigError("this machine has no address " + options.address +
                      " for data: set LOCKSTEP_ADDRESS to one that it has, or leave it out");
}

}  // namespace

std::shared_ptr<Machines> join(const MachinesOptions& asked) {
  check_options(asked);
  MachinesOptions options = asked;
  if (options.name.empty()) options.name = host_name();
  if (options.machines == 1) return machines::threads(1, {options.name}).front();
  return std::make_shared<machines::NetworkMachines>(options);
}

}  // namespace lockstep
