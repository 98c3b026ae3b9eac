#pragma once

// A tower's shards, on their way to its device.

#include <c10/core/Stream.h>
#include <lockstep/detail/shards.h>

#include "strategy/tower.h"

namespace lockstep::strategy {

/// Loads what is not there yet of a tower's shards; on an accelerator, which has a stream for it,
/// beside what it computes.
void load_shards(Tower& tower, detail::Shards& shards, const c10::Stream* input_stream);

/// Counts a shard that is computed. Negative rows are unknown.
void count_shard(Tower& tower, std::int64_t rows);

}  // namespace lockstep::strategy
