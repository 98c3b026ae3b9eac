#pragma once

// Where the towers' threads meet on the host, and exchange numbers.

#include <lockstep/device.h>

#include <array>
#include <vector>

#include "collective/barrier.h"
#include "collective/collective.h"

namespace lockstep::collective {

/// The part of a collective that is the same wherever the towers' memory is.
class Meeting {
 public:
  Meeting(int towers, DeviceKind kind);

  /// Returns when all towers are here. Throws Aborted if `abort` came first.
  void meet(int tower);

  double sum(int tower, std::span<const Terms> lists);  ///< see Collective

  void abort() noexcept { barrier_.abort(); }
  bool aborted() const noexcept { return barrier_.aborted(); }
  void reset();

  Seconds waited(int tower) const { return posts_[static_cast<std::size_t>(tower)].waited; }

 private:
  /// Touched by its tower's thread only, but for what it publishes before a barrier. A tower can be
  /// one call ahead of the others, which may still read: two of each, for even and odd calls.
  struct Post {
    std::array<std::span<const Terms>, 2> lists;
    std::array<Seconds, 2> arrived;
    unsigned sums = 0, meetings = 0;
    Seconds waited{};
  };

  const DeviceKind kind_;
  Barrier barrier_;
  std::vector<Post> posts_;
};

}  // namespace lockstep::collective
