#pragma once

#include <lockstep/machines.h>

#include <memory>
#include <vector>

namespace lockstep::machines {

/// `count` machines that are threads of this process, without a network: for tests, and for a
/// machine that is alone. They keep the contract of Machines; they are called "machine-0" and so on
/// unless `names` says otherwise.
std::vector<std::shared_ptr<Machines>> threads(int count, std::vector<std::string> names = {});

/// Makes one of threads() vanish without a good-bye, as a machine that loses its power: the others
/// see it as lost, and its own calls throw, for it is cut off. Any thread.
void vanish(Machines& machine);

}  // namespace lockstep::machines
