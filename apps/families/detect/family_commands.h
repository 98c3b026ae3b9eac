#pragma once

// The commands of the family `detect`.

#include "commands.h"

namespace lockstep::apps {

void add_detect(CLI::App& app, Run& run);
void add_scenes(CLI::App& app, Run& run);

}  // namespace lockstep::apps
