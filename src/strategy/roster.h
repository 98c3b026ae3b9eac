#pragma once

// The towers of all machines, by rank.

#include <lockstep/where.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::strategy {

struct Roster {
  std::vector<int> towers;         ///< by machine: how many
  std::vector<Device> devices;     ///< by rank
  std::vector<std::string> names;  ///< by rank: "cpu:0"; with several machines "host1/cpu:0"
  int machine = 0;                 ///< this one
  int first = 0;                   ///< rank of its first tower
  std::int64_t generation = 0;     ///< of the group that it is of

  int total() const { return static_cast<int>(devices.size()); }
};

/// With the towers on `here`. All machines call it. Throws ConfigError when they have devices of
/// different kinds, or devices with different numbers of threads.
Roster roster_of(const Where& where, const std::vector<Device>& here);

}  // namespace lockstep::strategy
