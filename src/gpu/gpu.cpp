#include <lockstep/error.h>
#include <lockstep/gpu.h>

#include "gpu/cuda.h"
#include "gpu/gpu_words.h"

namespace lockstep::gpu {
namespace {

void require(int number) {
  const int gpus = cuda_facts().gpus;
  if (number >= 0 && number < gpus) return;
  throw ConfigError("gpu:" + std::to_string(number) + " is not there: " +
                    (gpus == 0 ? why_none({}) : "there are " + std::to_string(gpus)) + ".");
}

}  // namespace

std::vector<Info> list() {
  std::vector<Info> result;
  const int gpus = cuda_facts().gpus;
  for (int number = 0; number < gpus; ++number) result.push_back(cuda_info(number));
  return result;
}

std::string why_none(std::optional<std::string_view> visible) {
  return why_no_gpu(cuda_facts(), visible);
}

void limit_memory_fraction(int number, double fraction) {
  require(number);
  if (!(fraction > 0 && fraction <= 1))
    throw ConfigError("a limit of memory is a fraction above 0, at most 1; asked for " +
                      std::to_string(fraction) + ".");
  cuda_limit_memory(number, fraction);
}

void limit_memory_bytes(int number, std::int64_t bytes) {
  require(number);
  const std::int64_t all = cuda_info(number).memory_bytes;
  if (bytes < 1 || bytes > all)
    throw ConfigError("gpu:" + std::to_string(number) + " has " + std::to_string(all) +
                      " bytes; asked for a limit of " + std::to_string(bytes) + ".");
  cuda_limit_memory(number, static_cast<double>(bytes) / static_cast<double>(all));
}

Usage usage(int number) {
  require(number);
  return cuda_usage(number);
}

void reset_peak(int number) {
  require(number);
  cuda_reset_peak(number);
}

void install() { cuda_install_fallback(); }

}  // namespace lockstep::gpu
