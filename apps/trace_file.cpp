#include "trace_file.h"

#include <lockstep/sim.h>

#include <iostream>

namespace lockstep::apps {

void write_trace(Trace& trace, const std::string& path) {
  for (const sim::Span& span : sim::timeline())
    trace.add("sim:" + std::to_string(span.device), "stream " + std::to_string(span.stream),
              span.name, span.begin, span.end);
  trace.write(path);
  std::cerr << "trace: " << path << ", to open in chrome://tracing or Perfetto\n";
}

}  // namespace lockstep::apps
