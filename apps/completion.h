#pragma once

// `lockstep completion SHELL`: a script that makes the shell complete commands, flags, recipes and
// fields of recipes.

#include <CLI/CLI.hpp>
#include <string>

#include "commands.h"

namespace lockstep::apps {

enum class Shell { bash, zsh, fish };

/// The script for the subcommands that `app` has. A positional called "recipe" takes recipes, a
/// flag called --set takes fields.
std::string completion_script(const CLI::App& app, Shell shell);

/// Declares `completion`. Call it after all other subcommands.
void add_completion(CLI::App& app, Run& run);

}  // namespace lockstep::apps
