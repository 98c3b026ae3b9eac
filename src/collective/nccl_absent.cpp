#include <lockstep/error.h>

#include "collective/nccl.h"

namespace lockstep::collective {

std::unique_ptr<Transport> make_nccl(const std::vector<int>&) {
  throw ConfigError(
      "this program was built without NCCL, which GPUs need; docs/cuda.md says how to build with "
      "it.");
}

}  // namespace lockstep::collective
