#include "device/cpu_backend.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "device/cgroup.h"

namespace lockstep::device {
namespace {

int cores_by_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

class CpuBackend : public Backend {
 public:
  c10::DeviceType type() const override { return c10::kCPU; }
  int count() const override { return cores_by_cgroup(cores_by_affinity(), {}); }
  void prepare(int) override {}
  void limit_memory(int, double, std::int64_t) override {}
  MemoryUse memory(int) const override { return {}; }
  void reset_peak(int) override {}
};

}  // namespace

Seconds Backend::host_now() const { return std::chrono::steady_clock::now().time_since_epoch(); }

Backend& cpu_backend() {
  static CpuBackend instance;
  return instance;
}

}  // namespace lockstep::device
