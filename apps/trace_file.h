#pragma once

#include <lockstep/trace.h>

#include <string>

namespace lockstep::apps {

/// Writes a trace, with every operator of simulated devices in it, and says where it is.
void write_trace(Trace& trace, const std::string& path);

}  // namespace lockstep::apps
