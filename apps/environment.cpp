#include "environment.h"

#include <cstdlib>

namespace lockstep::apps {
namespace {

std::optional<std::string> value_of(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

}  // namespace

Environment read_environment() {
  return {.cuda_visible_devices = value_of("CUDA_VISIBLE_DEVICES"),
          .sim = value_of("LOCKSTEP_SIM")};
}

std::optional<MachinesOptions> launched_machines(const std::string& first) {
  return launched([&](const char* name) {
    if (!first.empty() && std::string(name) == "LOCKSTEP_FIRST") return std::optional(first);
    return value_of(name);
  });
}

void limit_to_avx2() {
  setenv("ATEN_CPU_CAPABILITY", "avx2", 1);
  setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  setenv("MKL_ENABLE_INSTRUCTIONS", "AVX2", 1);  // on CPUs of Intel
  setenv("MKL_CBWR", "AVX2", 1);
}

std::string machines_secret() { return value_of("LOCKSTEP_SECRET").value_or(""); }

}  // namespace lockstep::apps
