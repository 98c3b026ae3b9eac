#pragma once

// Work on lists of all machines, element by element, of which every machine does a part.

#include <lockstep/machines.h>

#include <vector>

#include "arena/arena.h"
#include "collective/meeting.h"

namespace lockstep::collective {

/// Each machine brings lists, one tensor a layout, flat; what `work` makes of the lists of all, in
/// order of machines, comes back on all of them: a list of one tensor a layout, on the CPU; empty
/// where nobody brings a list. `work` is given the same elements of every list, and what it makes
/// of an element must not depend on others. A machine sends its lists and a result once, whatever
/// the number of machines: for what is too large for all to hear all of it. One thread of each
/// machine.
TensorList spread_work(Machines& machines, const std::vector<TensorList>& mine,
                       const std::vector<arena::Layout>& layouts,
                       const std::function<TensorList(const std::vector<TensorList>&)>& work);

}  // namespace lockstep::collective
