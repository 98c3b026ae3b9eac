#pragma once

#include <lockstep/error.h>
#include <lockstep/machines.h>

namespace lockstep::machines {

/// What send() and receive() ask of their arguments.
inline void check_transfer(const Machines& me, int other, std::uint32_t tag) {
  check(other >= 0 && other < me.size() && other != me.rank(),
        "send and receive need the rank of another machine of the group");
  check(tag < (1U << 31U), "the tag of a transfer is below 2^31");
}

}  // namespace lockstep::machines
