#pragma once

#include <gtest/gtest.h>

#include <ostream>

#include "machines/thread_machines.h"
#include "network.h"
#include "ranks.h"

namespace ranks {

/// A way to make machines, for tests of the contract that all keep.
struct Kind {
  std::string name;
  std::function<Group(int count)> make;
  std::function<void(Machines&)> vanish;
};

inline std::ostream& operator<<(std::ostream& stream, const Kind& kind) {
  return stream << kind.name;
}

inline std::vector<Kind> kinds() {
  return {{"Threads", [](int count) { return lockstep::machines::threads(count); },
           [](Machines& machine) { lockstep::machines::vanish(machine); }},
          {"Network", [](int count) { return network(count); },
           [](Machines& machine) { network_machine(machine).vanish(); }}};
}

class OfEachKind : public testing::TestWithParam<Kind> {
 protected:
  static Group make(int count) { return GetParam().make(count); }

  /// The machine loses its power, so to speak, and is gone from the group.
  static void vanish(Group& group, std::size_t index) {
    GetParam().vanish(*group[index]);
    group[index].reset();
  }
};

inline std::string kind_name(const testing::TestParamInfo<Kind>& info) { return info.param.name; }

}  // namespace ranks
