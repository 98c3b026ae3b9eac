#pragma once

// The commands of the family `seq2seq`.

#include "commands.h"

namespace lockstep::apps {

void add_chat(CLI::App& app, Run& run);
void add_translate(CLI::App& app, Run& run);

}  // namespace lockstep::apps
