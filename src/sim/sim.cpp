#include <lockstep/sim.h>

#include "sim/engine.h"
#include "sim/machine.h"

namespace lockstep::sim {

void configure(const Options& options) {
  install();
  Machine::instance().configure(options);
  serve_backward(options.devices);
}

const Options& options() { return Machine::instance().options(); }
void begin_step(std::int64_t step) { Machine::instance().begin_step(step); }
Usage usage(int device) { return Machine::instance().usage(device); }
void inject(const Fault& fault) { Machine::instance().inject(fault); }
void limit_memory(int device, double fraction, std::int64_t bytes) {
  Machine::instance().limit_memory(device, fraction, bytes);
}
void reset_peak(int device) { Machine::instance().reset_peak(device); }
Seconds host_now() { return Seconds{Machine::instance().host_now()}; }
Seconds device_now(int device) { return Seconds{Machine::instance().device_now(device)}; }
void host_reaches(Seconds time) { Machine::instance().host_reaches(time.count()); }
std::vector<Span> timeline() { return Machine::instance().timeline(); }

}  // namespace lockstep::sim
