#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::machines {

/// The first host of a list as Slurm writes it: "node[01-03,7],login" or "a,b". Empty: none.
std::string first_of_slurm(const std::string& list);

/// The hosts of a list as OpenMPI 4 writes it: "node[2:1-3,7],login@0(5)". Nothing: it is no list.
std::optional<std::vector<std::string>> hosts_of_openmpi(const std::string& list);

/// The most of "2(x3),1", as Slurm writes the number of tasks on each node; 0: it is no such text.
int most_tasks_of_slurm(const std::string& counts);

}  // namespace lockstep::machines
