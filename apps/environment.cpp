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

}  // namespace lockstep::apps
