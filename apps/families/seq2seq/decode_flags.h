#pragma once

// The flags that say what is decoded with which weights, the same for `chat` and `translate`.

#include <CLI/CLI.hpp>

#include "families/seq2seq/decoder.h"

namespace lockstep::apps {

void add_decode_flags(CLI::App& command, DecodeFlags& flags);

}  // namespace lockstep::apps
