#pragma once

// Which part of every batch one process computes: some of its shards. An input that is told so
// makes only the rows of those.

#include <lockstep/error.h>

#include <cstdint>

namespace lockstep {

namespace batch {

/// The first row of shard `i` when `rows` are cut into `n`; shard i ends where shard i + 1 begins.
inline std::int64_t shard_begin(std::int64_t rows, int i, int n) { return rows * i / n; }

}  // namespace batch

/// The rows from `begin` to `end - 1`.
struct RowRange {
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const RowRange&) const = default;
};

/// The shards from `first` to `end - 1` of the `shards` that a batch is cut into. It may be none.
struct Share {
  int shards = 1, first = 0, end = 1;

  bool whole() const { return first == 0 && end == shards; }
  bool operator==(const Share&) const = default;
};

/// Throws std::logic_error unless the shards of a share are among those of a batch.
inline void require_valid(const Share& share) {
  check(share.shards >= 1 && 0 <= share.first && share.first <= share.end &&
            share.end <= share.shards,
        "a share has shards that a batch does not have");
}

/// How much of a batch is there; by default all of it.
struct Portion {
  Share share = {};
  std::int64_t rows = 0;  ///< of the whole batch; of no meaning when all of it is there

  bool whole() const { return share.whole(); }

  /// The rows of the whole batch that are there.
  RowRange range() const { return {first_row(share.first), first_row(share.end)}; }

  /// The rows of one shard, counted from the first that is there. Throws std::logic_error for a
  /// shard that is not there.
  RowRange shard(int number) const {
    check(
        share.first <= number && number < share.end,
        "a shard is asked for that was not made: a process computes only the shards of its share. "
        "Call Job::share before it is given others.");
    return {first_row(number) - range().begin, first_row(number + 1) - range().begin};
  }

  bool operator==(const Portion&) const = default;

 private:
  std::int64_t first_row(int shard) const { return batch::shard_begin(rows, shard, share.shards); }
};

}  // namespace lockstep
