#include "sim/backend.h"

#include <lockstep/error.h>
#include <lockstep/sim.h>

#include <string>

namespace lockstep::sim {
namespace {

class SimBackend : public device::Backend {
 public:
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  int count() const override { return options().devices; }

  void prepare(int index) override {
    install();
    if (index >= count())
      throw ConfigError("sim:" + std::to_string(index) +
                        " is not there: the simulated machine has " + std::to_string(count()) +
                        " devices; ask for more with sim::configure() or LOCKSTEP_SIM.");
  }

  void limit_memory(int index, double fraction, std::int64_t bytes) override {
    sim::limit_memory(index, fraction, bytes);
  }
  device::MemoryUse memory(int index) const override {
    const Usage used = usage(index);
    return {used.bytes, used.peak_bytes};
  }
  void reset_peak(int index) override { sim::reset_peak(index); }

  Seconds host_now() const override { return sim::host_now(); }
  void host_reaches(Seconds time) override { sim::host_reaches(time); }
  void begin_step(std::int64_t step) override { sim::begin_step(step); }
};

}  // namespace

device::Backend& backend() {
  static SimBackend instance;
  return instance;
}

}  // namespace lockstep::sim
