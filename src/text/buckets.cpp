#include <lockstep/error.h>
#include <lockstep/random.h>
#include <lockstep/text/buckets.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace lockstep::text {
namespace {

std::int64_t length(std::span<const std::int32_t> tokens) {
  return static_cast<std::int64_t>(tokens.size());
}

/// What the pair needs of a bucket.
Bucket need(const TokenPair& pair) { return {length(pair.source), length(pair.target) + 1}; }

bool fits(const Bucket& inner, const Bucket& outer) {
  return inner.source <= outer.source && inner.target <= outer.target;
}

std::string text(const Bucket& bucket) {
  return "(" + std::to_string(bucket.source) + ", " + std::to_string(bucket.target) + ")";
}

void check_options(const BucketOptions& options) {
  if (options.buckets.empty()) throw ConfigError("no buckets were given: at least one is needed");
  const auto& buckets = options.buckets;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].source < 1 || buckets[i].target < 1)
      throw ConfigError("bucket " + text(buckets[i]) + " holds no pair: lengths are at least 1");
    if (i > 0 && (!fits(buckets[i - 1], buckets[i]) || fits(buckets[i], buckets[i - 1])))
      throw ConfigError("bucket " + text(buckets[i]) + " follows " + text(buckets[i - 1]) +
                        ": give them from small to large, each with both lengths at least, and one "
                        "more than, those of the one before");
  }
  if (options.batch_tokens < 0)
    throw ConfigError("batch_tokens is " + std::to_string(options.batch_tokens) +
                      ": give at least 1, or 0 for batches of batch_rows");
  if (options.batch_tokens == 0 && options.batch_rows < 1)
    throw ConfigError("batch_rows is " + std::to_string(options.batch_rows) + ": give at least 1");
}

/// Of each length: how many are not longer.
using Ranks = std::map<std::int64_t, std::int64_t>;

void accumulate(Ranks& counts) {
  std::int64_t sum = 0;
  for (auto& [key, count] : counts) count = sum += count;
}

/// The longest of rank `rank` at the most.
std::int64_t longest(const Ranks& ranks, std::int64_t rank) {
  std::int64_t result = 1;
  for (const auto& [key, each] : ranks) {
    if (each > rank) break;
    result = key;
  }
  return result;
}

/// Writes the tokens of a row.
std::int64_t* put(std::int64_t* to, std::span<const std::int32_t> tokens) {
  return std::copy(tokens.begin(), tokens.end(), to);
}

/// What the longest of some pairs need.
Bucket longest_of(std::span<const TokenPair> pairs) {
  Bucket longest_row = {0, 1};
  for (const TokenPair& pair : pairs) {
    check(!pair.source.empty(), "padded_batch: a source has at least one token");
    longest_row = {std::max(longest_row.source, need(pair).source),
                   std::max(longest_row.target, need(pair).target)};
  }
  return longest_row;
}

/// Rows of a rectangle, padded to what `longest_row` needs.
SequenceBatch padded_to(const Bucket& longest_row, std::span<const TokenPair> pairs) {
  const auto rows = static_cast<std::int64_t>(pairs.size());
  const std::int64_t source_width = longest_row.source, target_width = longest_row.target + 1;
  SequenceBatch batch{.source = torch::full({rows, source_width}, kPad, torch::kInt64),
                      .lengths = torch::empty({rows}, torch::kInt64),
                      .target = torch::full({rows, target_width}, kPad, torch::kInt64)};
  auto* source = batch.source.mutable_data_ptr<std::int64_t>();
  auto* lengths = batch.lengths.mutable_data_ptr<std::int64_t>();
  auto* target = batch.target.mutable_data_ptr<std::int64_t>();
  for (const TokenPair& pair : pairs) {
    put(source, pair.source);
    *target = kBegin;
    *put(target + 1, pair.target) = kEnd;
    *lengths++ = length(pair.source);
    source += source_width;
    target += target_width;
  }
  return batch;
}

}  // namespace

SequenceBatch padded_batch(std::span<const TokenPair> pairs) {
  return padded_to(longest_of(pairs), pairs);
}

// A pair's rank is the higher of its two sides'; all pairs up to a rank fit in the bucket of the
// lengths that have it. So the buckets lie where the ranks' quantiles are.
std::vector<Bucket> quantile_buckets(const PairFile& pairs, int count) {
  if (count < 1)
    throw ConfigError(std::to_string(count) + " buckets were asked for: at least 1 is needed");
  if (pairs.size() == 0) throw ConfigError("there are no pairs to find buckets for");
  Ranks sources, targets, both;
  for (std::int64_t i = 0; i < pairs.size(); ++i) {
    ++sources[need(pairs[i]).source];
    ++targets[need(pairs[i]).target];
  }
  accumulate(sources);
  accumulate(targets);
  for (std::int64_t i = 0; i < pairs.size(); ++i) {
    const Bucket lengths = need(pairs[i]);
    ++both[std::max(sources[lengths.source], targets[lengths.target])];
  }
  const std::int64_t kept = pairs.size() - pairs.size() / 1000;
  std::vector<Bucket> buckets;
  std::int64_t inside = 0, wanted = 1;  // buckets that have their share
  for (const auto& [rank, here] : both) {
    inside += here;
    if (wanted > count || inside * count < kept * wanted) continue;
    buckets.push_back({longest(sources, rank), longest(targets, rank)});
    while (wanted <= count && inside * count >= kept * wanted) ++wanted;
  }
  return buckets;
}

struct BucketedPairs::Contents {
  struct Share {
    std::int64_t begin = 0;  // in `order`
    std::int64_t pairs = 0;
    std::int64_t rows = 0;           // of a batch
    std::int64_t batches_begin = 0;  // among all batches
    std::uint64_t seed = 0;
    std::int64_t batches() const { return (pairs + rows - 1) / rows; }
  };

  Contents(PairFile file, BucketOptions given) : pairs(std::move(file)), options(std::move(given)) {
    check_options(options);
    check(pairs.size() <= std::numeric_limits<std::uint32_t>::max(),
          "BucketedPairs: at most 2^32 - 1 pairs");
    count();
    place();
    if (order.empty())
      throw ConfigError("none of " + std::to_string(pairs.size()) +
                        " pairs fits in a bucket, the last of which is " +
                        text(options.buckets.back()) + ": give larger buckets, or cut the pairs");
  }

  /// The number of the pair's bucket; that of all buckets if it is left out.
  std::size_t bucket_of(const TokenPair& pair) const {
    const auto& buckets = options.buckets;
    const Bucket lengths = need(pair);
    const auto found = std::find_if(buckets.begin(), buckets.end(),
                                    [&](const Bucket& bucket) { return fits(lengths, bucket); });
    return static_cast<std::size_t>(found - buckets.begin());
  }

  void count() {
    shares.resize(options.buckets.size());
    for (std::int64_t i = 0; i < pairs.size(); ++i) {
      const std::size_t bucket = bucket_of(pairs[i]);
      if (bucket < shares.size())
        ++shares[bucket].pairs;
      else
        ++too_long;
    }
    if (options.too_long == TooLong::cut) shares.back().pairs += too_long;
    std::int64_t placed = 0;
    for (std::size_t b = 0; b < shares.size(); ++b) {
      const Bucket& bucket = options.buckets[b];
      Share& share = shares[b];
      share.begin = placed;
      share.rows =
          options.batch_tokens == 0
              ? options.batch_rows
              : std::max<std::int64_t>(1, options.batch_tokens / (bucket.source + bucket.target));
      share.batches_begin = batches;
      share.seed = combined_seed(options.seed, std::array{static_cast<std::int64_t>(b)});
      placed += share.pairs;
      batches += share.batches();
    }
    order.resize(static_cast<std::size_t>(placed));
  }

  /// The pairs of the first bucket, of the second, ..., each in the order of the file.
  void place() {
    std::vector<std::int64_t> next;
    for (const Share& share : shares) next.push_back(share.begin);
    for (std::int64_t i = 0; i < pairs.size(); ++i) {
      std::size_t bucket = bucket_of(pairs[i]);
      if (bucket == shares.size() && options.too_long == TooLong::drop) continue;
      bucket = std::min(bucket, shares.size() - 1);
      order[static_cast<std::size_t>(next[bucket]++)] = static_cast<std::uint32_t>(i);
    }
  }

  /// The pair at a place of its bucket, no longer than the last bucket.
  TokenPair pair(const Share& share, std::int64_t epoch, std::int64_t index) const {
    if (options.shuffle) index = permuted(index, share.pairs, share.seed, epoch);
    const Bucket& most = options.buckets.back();
    const TokenPair whole = pairs[order[static_cast<std::size_t>(share.begin + index)]];
    const auto cut = [](std::span<const std::int32_t> tokens, std::int64_t to) {
      return tokens.first(std::min(tokens.size(), static_cast<std::size_t>(to)));
    };
    return {cut(whole.source, most.source), cut(whole.target, most.target - 1)};
  }

  /// The pairs of a batch, in the share of its bucket.
  struct Batch {
    const Share& share;
    std::int64_t first, rows;
  };

  Batch batch(std::int64_t epoch, std::int64_t index) const {
    check(index >= 0 && index < batches, "BucketedPairs: there is no batch of that number");
    const std::int64_t place =
        options.shuffle ? permuted(index, batches, options.seed, epoch) : index;
    const auto after = std::upper_bound(
        shares.begin(), shares.end(), place,
        [](std::int64_t number, const Share& share) { return number < share.batches_begin; });
    const Share& share = *(after - 1);
    const std::int64_t first = (place - share.batches_begin) * share.rows;
    return {share, first, std::min(share.rows, share.pairs - first)};
  }

  const PairFile pairs;
  const BucketOptions options;
  std::vector<Share> shares;  // by bucket
  std::vector<std::uint32_t> order;
  std::int64_t batches = 0;
  std::int64_t too_long = 0;
};

BucketedPairs::BucketedPairs(PairFile pairs, BucketOptions options)
    : contents_(std::make_shared<const Contents>(std::move(pairs), std::move(options))) {}

std::int64_t BucketedPairs::size() const { return contents_->batches; }

SequenceBatch BucketedPairs::at(std::int64_t epoch, std::int64_t index) const {
  return at(epoch, index, {0, rows(epoch, index)});
}

std::int64_t BucketedPairs::rows(std::int64_t epoch, std::int64_t index) const {
  return contents_->batch(epoch, index).rows;
}

SequenceBatch BucketedPairs::at(std::int64_t epoch, std::int64_t index,
                                const RowRange& rows) const {
  const Contents::Batch whole = contents_->batch(epoch, index);
  std::vector<TokenPair> pairs;
  for (std::int64_t row = 0; row < whole.rows; ++row)
    pairs.push_back(contents_->pair(whole.share, epoch, whole.first + row));
  SequenceBatch batch =
      padded_to(longest_of(pairs), std::span(pairs).subspan(static_cast<std::size_t>(rows.begin),
                                                            static_cast<std::size_t>(rows.size())));
  batch.bucket = &whole.share - contents_->shares.data();
  batch.index = index;
  return batch;
}

const std::vector<Bucket>& BucketedPairs::buckets() const { return contents_->options.buckets; }

std::int64_t BucketedPairs::pairs_in(std::size_t bucket) const {
  return contents_->shares.at(bucket).pairs;
}

std::int64_t BucketedPairs::too_long() const { return contents_->too_long; }

}  // namespace lockstep::text
