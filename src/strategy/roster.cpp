#include "strategy/roster.h"

#include <lockstep/error.h>

#include "base/letter.h"

namespace lockstep::strategy {
namespace {

void require_alike(const Roster& roster) {
  for (std::size_t rank = 1; rank < roster.devices.size(); ++rank) {
    const Device &first = roster.devices[0], &other = roster.devices[rank];
    if (other.kind != first.kind)
      throw ConfigError(roster.names[0] + " and " + roster.names[rank] +
                        " are of different kinds; all machines train on one kind of device.");
    if (other.threads != first.threads)
      throw ConfigError(roster.names[0] + " has " + std::to_string(first.threads) +
                        " threads and " + roster.names[rank] + " has " +
                        std::to_string(other.threads) +
                        ": sums come out differently. Give the devices of all machines as many "
                        "threads.");
  }
}

}  // namespace

Roster roster_of(const Where& where, const std::vector<Device>& here) {
  Roster roster;
  if (!where.machines) {
    roster.towers = {static_cast<int>(here.size())};
    roster.devices = here;
    for (const Device& device : here) roster.names.push_back(device.name());
    return roster;
  }
  Machines& machines = *where.machines;
  base::Letter mine;
  mine.put(here.size());
  for (const Device& device : here) {
    mine.put(device.kind);
    mine.put(device.index);
    mine.put(device.threads);
  }
  roster.machine = machines.rank();
  roster.generation = machines.generation();
  for (int rank = 0; const Bytes& bytes : machines.all_gather(mine.bytes())) {
    if (rank == machines.rank()) roster.first = roster.total();
    base::LetterReader letter(bytes);
    roster.towers.push_back(static_cast<int>(letter.get<std::size_t>()));
    for (int i = 0; i < roster.towers.back(); ++i) {
      Device& device = roster.devices.emplace_back();
      device.kind = letter.get<DeviceKind>();
      device.index = letter.get<int>();
      device.threads = letter.get<int>();
      roster.names.push_back(machines.name(rank) + "/" + device.name());
    }
    ++rank;
  }
  require_alike(roster);
  return roster;
}

}  // namespace lockstep::strategy
