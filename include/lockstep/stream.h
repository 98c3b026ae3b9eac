#pragma once

// Input in order. A stream knows its position as a few integers, and goes to any position in O(1).
// A checkpoint keeps nothing else of it.

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

/// Where a stream stands. The first integer is the epoch, from 0; the others are the stream's own.
using Position = std::vector<std::int64_t>;

/// Items one after the other. Use from one thread at a time.
template <class T>
class Stream {
 public:
  using Item = T;
  virtual ~Stream() = default;

  /// The next item; nothing at the end, and from then on.
  virtual std::optional<T> next() = 0;

  /// Of the item that next() will return.
  virtual Position position() const = 0;

  /// Goes to a position that position() returned, of this stream or of one made in the same way.
  /// Throws ConfigError, and stays where it is, when it is not a valid position.
  virtual void seek(const Position& position) = 0;
};

}  // namespace lockstep
