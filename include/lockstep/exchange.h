#pragma once

// How towers on accelerators exchange gradients and parameters.

#include <cstdint>

namespace lockstep {

/// How bytes get from one accelerator to another.
enum class TransportKind {
  best,  ///< NCCL between GPUs where it is built in, else peer_copy
  nccl,
  peer_copy,  ///< device-to-device copies
};

struct Exchanging {
  TransportKind transport = TransportKind::best;
  std::int64_t bucket_bytes = 25 << 20;  ///< of gradients exchanged in one go, during backward
  int group = 0;  ///< devices per group: sums inside groups first, then across; 0: no groups
  int packs = 1;  ///< parts of a bucket: one crosses groups while the next is summed inside
};

}  // namespace lockstep
