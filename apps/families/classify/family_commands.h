#pragma once

#include "commands.h"

namespace lockstep::apps {

void add_predict(CLI::App& app, Run& run);

}  // namespace lockstep::apps
