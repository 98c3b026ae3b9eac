#pragma once

// The flags that say what is written with which weights, the same for `chat` and `translate`.

#include <CLI/CLI.hpp>

#include "text_writer.h"

namespace lockstep::apps {

void add_writer_flags(CLI::App& command, WriterFlags& flags);

}  // namespace lockstep::apps
