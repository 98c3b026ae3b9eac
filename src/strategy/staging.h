#pragma once

// Which shards of a batch were loaded, and where.

#include <c10/core/Event.h>
#include <lockstep/batch.h>

#include <memory>
#include <vector>

namespace lockstep::detail {

/// By shard; each is touched by one tower's thread at a time.
struct Staging {
  struct Shard {
    int place = -1;  ///< of the tower that it was loaded for; -1: not loaded
    std::int64_t rows = 0;
    std::unique_ptr<c10::Event> arrived;  ///< on an accelerator: the copy is done
  };
  std::vector<Shard> shards;
};

}  // namespace lockstep::detail
