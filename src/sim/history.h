#pragma once

// Who read and wrote which bytes of an allocation last.

#include "sim/clock.h"

#include <optional>
#include <string>

namespace lockstep::sim {

/// Operator number `count` of `stream`. Names live as long as the process.
struct Access {
  std::size_t stream = 0;
  std::uint64_t count = 0;
  std::uint64_t life = 0;  ///< of the memory: grows each time it is given out anew
  const std::string* op = nullptr;
};

/// What an access collides with.
struct Conflict {
  Access other;
  bool other_wrote = false;
};

/// The last write and the reads since, by range of bytes. A map of disjoint intervals, kept as a
/// sorted vector: most allocations have one, an arena has some hundreds.
class History {
 public:
  /// The access in [begin, end) that is not known to be over and must be: the last write, and for a
  /// `write` the reads since as well.
  std::optional<Conflict> conflict(std::size_t begin, std::size_t end, bool write,
                                   const VectorClock& known) const;

  /// Enters an access to [begin, end) that is ordered after all that `known` knows.
  void enter(std::size_t begin, std::size_t end, bool write, const Access& access,
             const VectorClock& known);

  /// Drops what `stream` did.
  void forget(std::size_t stream);
  void clear() { cells_.clear(); }

 private:
  struct Cell {
    std::size_t begin = 0, end = 0;
    std::optional<Access> write = {};
    std::vector<Access> reads = {};
  };
  void split_at(std::size_t position);
  void enter_write(std::size_t begin, std::size_t end, const Access& access);
  void enter_read(std::size_t begin, std::size_t end, const Access& access,
                  const VectorClock& known);

  std::vector<Cell> cells_;  // sorted, disjoint; bytes in none of them were never touched
};

}  // namespace lockstep::sim
