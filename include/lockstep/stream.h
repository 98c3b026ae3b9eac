#pragma once

// Input in order. A stream knows its position as a few integers, and goes to any position in O(1).
// A checkpoint keeps nothing else of it.

#include <lockstep/share.h>

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

  /// Asks for only the rows of these shards, from the next item on: items are batches, and those
  /// that were made ahead are made again. The position stays. False: items are whole batches, as
  /// ever, because a row depends on other rows of its batch, or would be made in any case.
  virtual bool share(const Share& share) { return share.whole(); }

  /// Of the item that next() returned last: how much of the batch it is. Where a share has no rows
  /// of a batch, its item is one without rows or a default-constructed one.
  virtual Portion portion() const { return {}; }
};

}  // namespace lockstep
