#pragma once

// Several machines: how they find each other, and what they compare before they begin.

#include <lockstep/machines.h>
#include <lockstep/trainer.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "recipe/recipe.h"

namespace lockstep::apps {

struct MachineFlags {
  std::string first;    ///< "host:port"
  std::string machine;  ///< "0/3"
  std::string address;  ///< of this machine
  std::string on_failure = "go-on";
  bool failure_asked = false;  ///< by the user
  std::string transport = "gloo";
  double silence = 8;  ///< seconds
  double start = 60;   ///< seconds
  bool rejoin = false;
  bool level = false;

  OnMachineFailure on_machine_failure() const {
    return on_failure == "stop" || transport == "mpi" ? OnMachineFailure::stop
                                                      : OnMachineFailure::go_on;
  }
};

void add_machine_flags(CLI::App& command, MachineFlags& flags);

/// Joins the machines that the flags name, or a launcher; null: this one is alone.
std::shared_ptr<Machines> join_machines(const MachineFlags& flags);

/// Whether this process is the one that prints and writes files.
inline bool is_first(const std::shared_ptr<Machines>& machines) {
  return !machines || machines->rank() == 0;
}

/// Whether a machine that has come back is to be taken in. The first machine knows.
bool somebody_waits(const MachineFlags& flags, const std::shared_ptr<Machines>& machines);

/// Takes it in, on all machines together; false: nobody waits, or a signal came to one of them.
bool take_in(const MachineFlags& flags, const std::shared_ptr<Machines>& machines, bool signalled);

/// Before anything is computed: where CPUs differ and a machine has asked for --level, all go down
/// to AVX2. Returns Where::instructions. Throws ConfigError where that would not help.
std::string level_machines(const MachineFlags& flags, const std::shared_ptr<Machines>& machines);

/// Throws ConfigError, on all machines, unless they have the same recipe and data, and can train it
/// with these instructions.
void compare_recipes(const std::shared_ptr<Machines>& machines, const Recipe& recipe,
                     const std::string& instructions);

}  // namespace lockstep::apps
