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
  std::int64_t bucket_bytes = 25 << 20;  ///< gradients reduced at one go, while backward still runs
  int group = 0;  ///< devices a group: reduced inside the groups first, then across; 0: no groups
  int packs = 1;  ///< parts of a bucket that follow each other through the two stages
};

}  // namespace lockstep
