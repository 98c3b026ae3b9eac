#include <lockstep/error.h>

#include "gpu/cuda.h"

namespace lockstep::gpu {
namespace {

[[noreturn]] void absent() {
  throw ConfigError("this program was built without CUDA; docs/cuda.md says how to build with it.");
}

}  // namespace

CudaFacts cuda_facts() { return {}; }
Info cuda_info(int) { absent(); }
void cuda_limit_memory(int, double) { absent(); }
Usage cuda_usage(int) { absent(); }
void cuda_reset_peak(int) { absent(); }
void cuda_install_fallback() { absent(); }

}  // namespace lockstep::gpu
