#include <lockstep/error.h>

#include "collective/nccl.h"

namespace lockstep::collective {

namespace {

[[noreturn]] void refuse() {
  throw ConfigError(
      "this program was built without NCCL, which GPUs need; docs/cuda.md says how to build with "
      "it.");
}

}  // namespace

std::unique_ptr<Transport> make_nccl(const std::vector<int>&) { refuse(); }
std::unique_ptr<Transport> make_nccl(const NcclRanks&) { refuse(); }

}  // namespace lockstep::collective
