#pragma once

// The subcommands of `lockstep`, one a file. Each add_... declares a subcommand and its flags; if
// it is the one the user chose, `run` is what to do then, and returns the exit code.

#include <CLI/CLI.hpp>
#include <functional>

#include "environment.h"

namespace lockstep::apps {

using Run = std::function<int()>;

void add_train(CLI::App& app, const Environment& environment, Run& run);
void add_resume(CLI::App& app, const Environment& environment, Run& run);
void add_evaluate(CLI::App& app, const Environment& environment, Run& run);
void add_verify(CLI::App& app, const Environment& environment, Run& run);
void add_scaling(CLI::App& app, const Environment& environment, Run& run);
void add_family_commands(CLI::App& app, Run& run);  ///< those of all families
void add_inspect(CLI::App& app, Run& run);
void add_export(CLI::App& app, Run& run);
void add_serve(CLI::App& app, Run& run);
void add_runs(CLI::App& app, Run& run);  ///< and `compare`
void add_init(CLI::App& app, Run& run);
void add_recipes(CLI::App& app, Run& run);
void add_devices(CLI::App& app, const Environment& environment, Run& run);

}  // namespace lockstep::apps
