#pragma once

// Batches of pairs of about the same length. Every step trains on one bucket, so that little of a
// batch is padding.

#include <lockstep/share.h>
#include <lockstep/text/pair_file.h>
#include <lockstep/text/sequence_batch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::text {

/// The most tokens of a source and of a target; kEnd counts as one of the target's.
struct Bucket {
  std::int64_t source = 0;
  std::int64_t target = 0;
};

/// Those of the old translator.
inline std::vector<Bucket> default_buckets() { return {{5, 10}, {10, 15}, {20, 25}, {40, 50}}; }

/// At most `count` buckets with about as many pairs each; the last takes all but the longest
/// thousandth. Fewer when the lengths do not tell so many groups apart. Throws ConfigError when
/// there are no pairs.
std::vector<Bucket> quantile_buckets(const PairFile& pairs, int count);

/// Rows of a rectangle, padded to the longest; the bucket is 0.
SequenceBatch padded_batch(std::span<const TokenPair> pairs);

enum class TooLong {
  drop,  ///< leave out pairs that fit in no bucket
  cut,   ///< cut them to the last bucket
};

struct BucketOptions {
  std::vector<Bucket> buckets = default_buckets();  ///< ascending
  std::int64_t batch_tokens = 0;  ///< rows of a batch times the sum of the bucket's two lengths, at
                                  ///< most; a row at least; 0: by rows
  std::int64_t batch_rows = 64;   ///< when batch_tokens is 0
  TooLong too_long = TooLong::drop;
  bool shuffle = true;  ///< else the order of the file, bucket after bucket
  std::uint64_t seed = 0;
};

/// A Source (input/source.h) of batches. In an epoch each pair comes once, each batch is of one
/// bucket, and the order of the batches belongs to (seed, epoch): a step draws a bucket with the
/// probability of its share of the batches that are left. Copies share everything. Some rows of a
/// batch are padded as the whole batch is, to the longest of all of its rows: lengths are known
/// without reading the texts.
class BucketedPairs {
 public:
  /// Throws ConfigError for buckets that do not ascend, and when no pair is left.
  BucketedPairs(PairFile pairs, BucketOptions options);

  std::int64_t size() const;  ///< batches of an epoch
  SequenceBatch at(std::int64_t epoch, std::int64_t index) const;
  std::int64_t rows(std::int64_t epoch, std::int64_t index) const;
  SequenceBatch at(std::int64_t epoch, std::int64_t index, const RowRange& rows) const;

  const std::vector<Bucket>& buckets() const;
  std::int64_t pairs_in(std::size_t bucket) const;
  std::int64_t too_long() const;  ///< dropped or cut

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;
};

}  // namespace lockstep::text
