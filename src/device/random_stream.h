#pragma once

// A random stream of one's own for an unchanged model: inside a RandomScope every random operator
// of this thread that was given no generator draws from the scope's. See "Note: random streams" in
// docs/notes.md.

#include <ATen/core/Generator.h>

#include <cstdint>
#include <mutex>
#include <optional>

#include "device/scope.h"

namespace lockstep::device {

/// The seed of the stream that belongs to (seed, step, shard). Steps and shards are numbers from 0;
/// negative ones name streams outside training, such as initialisation.
std::uint64_t stream_seed(std::uint64_t seed, std::int64_t step, std::int64_t shard);

inline constexpr std::int64_t kInitStream = -1;      ///< `step` of construction
inline constexpr std::int64_t kEvaluateStream = -2;  ///< `step` of evaluation; shard = batch number

/// While it lives, the default generator of an accelerator goes on with the stream of another
/// generator of that device: some operators draw from the default one, whatever they are given. One
/// thread at a time may have a device's; others wait for their turn. Nests in one thread.
class LentStream {
 public:
  explicit LentStream(const at::Generator& generator);
  ~LentStream();  ///< puts both streams back, the lent one as far as it has come
  LentStream(const LentStream&) = delete;
  LentStream& operator=(const LentStream&) = delete;

  const at::Generator& borrower() const { return default_; }

 private:
  at::Generator lender_, default_;
  std::unique_lock<std::recursive_mutex> turn_;
  at::Tensor own_state_;  // of the default generator
};

/// While it lives, random operators of this thread draw the numbers of `generator`. Scopes nest.
/// With a generator of an accelerator it is a LentStream too, so a second thread waits until the
/// device is free, and operators on CPU tensors draw from a twin that is seeded from it.
class RandomScope {
 public:
  explicit RandomScope(const at::Generator& generator);

 private:
  std::optional<LentStream> lent_;  // on an accelerator
  ScopeGuard guard_;
};

}  // namespace lockstep::device
