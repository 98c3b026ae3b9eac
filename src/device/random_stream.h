#pragma once

// A random stream of one's own for an unchanged model: inside a RandomScope every random operator
// of this thread that was given no generator draws from the scope's. See "Note: random streams" in
// docs/notes.md.

#include <ATen/core/Generator.h>

#include <cstdint>

#include "device/scope.h"

namespace lockstep::device {

/// The seed of the stream that belongs to (seed, step, shard). Steps and shards are numbers from 0;
/// negative ones name streams outside training, such as initialisation.
std::uint64_t stream_seed(std::uint64_t seed, std::int64_t step, std::int64_t shard);

inline constexpr std::int64_t kInitStream = -1;      ///< `step` of construction
inline constexpr std::int64_t kEvaluateStream = -2;  ///< `step` of evaluation; shard = batch number

/// While it lives, random operators of this thread draw from `generator`. Scopes nest. With a
/// generator of another device, operators on CPU tensors draw from a twin that is seeded from it.
class RandomScope {
 public:
  explicit RandomScope(at::Generator generator);

 private:
  ScopeGuard guard_;
};

}  // namespace lockstep::device
