#pragma once

// The subcommands of `lockstep`, one a file. Each add_... declares a subcommand and its flags; if
// it is the one the user chose, `run` is what to do then, and returns the exit code.

#include <CLI/CLI.hpp>
#include <functional>

#include "environment.h"

namespace lockstep::apps {

using Run = std::function<int()>;

void add_devices(CLI::App& app, const Environment& environment, Run& run);

}  // namespace lockstep::apps
