#include <lockstep/error.h>
#include <lockstep/gpu.h>

#include "device/cuda.h"
#include "device/gpu_words.h"

namespace lockstep::gpu {
namespace {

void require(int number) {
  const int gpus = device::cuda_facts().gpus;
  if (number >= 0 && number < gpus) return;
  throw ConfigError("gpu:" + std::to_string(number) + " is not there: " +
                    (gpus == 0 ? why_none({}) : "there are " + std::to_string(gpus)) + ".");
}

}  // namespace

std::vector<Info> list() {
  std::vector<Info> result;
  const int gpus = device::cuda_facts().gpus;
  for (int number = 0; number < gpus; ++number) result.push_back(device::cuda_info(number));
  return result;
}

std::string why_none(std::optional<std::string_view> visible) {
  return device::why_no_gpu(device::cuda_facts(), visible);
}

void limit_memory_fraction(int number, double fraction) {
  require(number);
  if (!(fraction > 0 && fraction <= 1))
    throw ConfigError("a limit of memory is a fraction above 0, at most 1; asked for " +
                      std::to_string(fraction) + ".");
  device::cuda_limit_memory(number, fraction);
}

void limit_memory_bytes(int number, std::int64_t bytes) {
  require(number);
  const std::int64_t all = device::cuda_info(number).memory_bytes;
  if (bytes < 1 || bytes > all)
    throw ConfigError("gpu:" + std::to_string(number) + " has " + std::to_string(all) +
                      " bytes; asked for a limit of " + std::to_string(bytes) + ".");
  device::cuda_limit_memory(number, static_cast<double>(bytes) / static_cast<double>(all));
}

Usage usage(int number) {
  require(number);
  return device::cuda_usage(number);
}

void reset_peak(int number) {
  require(number);
  device::cuda_reset_peak(number);
}

void install() { device::cuda_install_fallback(); }

}  // namespace lockstep::gpu
