// Length buckets: which pairs are in which batch, and how they are padded.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/input/prefetch.h>
#include <lockstep/text/buckets.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <thread>

#include "folder.h"
#include "input/shares.h"

namespace buckets_test {

using namespace lockstep;
using namespace lockstep::text;
using Tokens = std::vector<std::int32_t>;
using Lengths = std::pair<std::size_t, std::size_t>;

/// Pairs of these lengths. The first token of pair i is 100 + i, and all its tokens are that.
PairFile pairs_of(const std::vector<Lengths>& lengths) {
  const tests::Folder folder;
  PairFileWriter writer(folder.path("pairs"), "");
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto token = static_cast<std::int32_t>(100 + i);
    writer.add({Tokens(lengths[i].first, token), Tokens(lengths[i].second, token)});
  }
  writer.finish();
  return PairFile(folder.path("pairs"));
}

/// Of all lengths up to those, and of some that are too long for (40, 50).
std::vector<Lengths> mixed_lengths(std::size_t count) {
  std::vector<Lengths> lengths;
  for (std::size_t i = 0; i < count; ++i) lengths.emplace_back(1 + i * 7 % 43, i * 11 % 53);
  return lengths;
}

/// The numbers of the batch's pairs.
std::vector<std::int64_t> pairs_in(const SequenceBatch& batch) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t row = 0; row < batch.source.size(0); ++row)
    numbers.push_back(batch.source[row][0].item<std::int64_t>() - 100);
  return numbers;
}

std::vector<std::vector<std::int64_t>> epoch_of(const BucketedPairs& source, std::int64_t epoch) {
  std::vector<std::vector<std::int64_t>> batches;
  for (std::int64_t i = 0; i < source.size(); ++i) batches.push_back(pairs_in(source.at(epoch, i)));
  return batches;
}

std::vector<std::int64_t> sorted(const std::vector<std::vector<std::int64_t>>& batches) {
  std::vector<std::int64_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  std::sort(all.begin(), all.end());
  return all;
}

bool same(const SequenceBatch& a, const SequenceBatch& b) {
  return a.source.equal(b.source) && a.lengths.equal(b.lengths) && a.target.equal(b.target) &&
         a.bucket == b.bucket;
}

torch::Tensor numbers(const std::vector<std::vector<std::int64_t>>& rows) {
  std::vector<torch::Tensor> all;
  for (const auto& row : rows) all.push_back(torch::tensor(row, torch::kInt64));
  return torch::stack(all);
}

TEST(Buckets, AnEpochHasEveryPairOnceInBothOrders) {
  const PairFile file = pairs_of(mixed_lengths(300));
  for (const bool shuffle : {false, true}) {
    const BucketedPairs source(file,
                               {.batch_rows = 7, .too_long = TooLong::cut, .shuffle = shuffle});
    for (const std::int64_t epoch : {0, 1, 5}) {
      const auto found = sorted(epoch_of(source, epoch));
      ASSERT_EQ(found.size(), 300U);
      for (std::int64_t i = 0; i < 300; ++i) EXPECT_EQ(found[static_cast<std::size_t>(i)], i);
    }
  }
}

TEST(Buckets, APairIsInTheFirstBucketWhereBothSidesFit) {
  const auto lengths = mixed_lengths(300);
  const BucketedPairs source(pairs_of(lengths), {.batch_rows = 5});
  const auto& buckets = source.buckets();
  const auto fits = [&](std::int64_t pair, std::int64_t bucket) {
    const auto& [from, to] = lengths[static_cast<std::size_t>(pair)];
    const Bucket& most = buckets[static_cast<std::size_t>(bucket)];
    return static_cast<std::int64_t>(from) <= most.source &&
           static_cast<std::int64_t>(to) + 1 <= most.target;
  };
  std::vector<std::int64_t> counts(buckets.size());
  for (std::int64_t i = 0; i < source.size(); ++i) {
    const SequenceBatch batch = source.at(0, i);
    for (const std::int64_t pair : pairs_in(batch)) {
      EXPECT_TRUE(fits(pair, batch.bucket)) << pair;
      EXPECT_TRUE(batch.bucket == 0 || !fits(pair, batch.bucket - 1)) << pair;
      ++counts[static_cast<std::size_t>(batch.bucket)];
    }
  }
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    EXPECT_GT(counts[b], 0);
    EXPECT_EQ(counts[b], source.pairs_in(b));
  }
}

TEST(Buckets, TheEndCountsAsATargetsToken) {
  const BucketedPairs source(pairs_of({{5, 9}, {5, 10}, {6, 1}, {5, 0}}), {});
  EXPECT_EQ(source.pairs_in(0), 2);
  EXPECT_EQ(source.pairs_in(1), 2);
}

TEST(Buckets, RowsArePaddedToTheLongestOfTheBatch) {
  const BucketedPairs source(pairs_of({{2, 3}, {3, 1}, {1, 0}}), {.shuffle = false});
  ASSERT_EQ(source.size(), 1);
  const SequenceBatch batch = source.at(0, 0);
  EXPECT_EQ(batch.bucket, 0);
  EXPECT_TRUE(batch.source.equal(numbers({{100, 100, kPad}, {101, 101, 101}, {102, kPad, kPad}})));
  EXPECT_TRUE(batch.lengths.equal(torch::tensor({2, 3, 1}, torch::kInt64)));
  EXPECT_TRUE(batch.target.equal(numbers({{kBegin, 100, 100, 100, kEnd},
                                          {kBegin, 101, kEnd, kPad, kPad},
                                          {kBegin, kEnd, kPad, kPad, kPad}})));
}

static_assert(input::MakesRows<BucketedPairs>);
static_assert(lockstep::detail::kPortionable<SequenceBatch>);

TEST(Buckets, SomeRowsArePaddedAsTheWholeBatchIs) {
  const BucketedPairs source(pairs_of({{2, 3}, {3, 1}, {1, 0}}), {.shuffle = false});
  const SequenceBatch last = source.at(0, 0, {2, 3});
  EXPECT_TRUE(last.source.equal(numbers({{102, kPad, kPad}})));
  EXPECT_TRUE(last.target.equal(numbers({{kBegin, kEnd, kPad, kPad, kPad}})));
  EXPECT_TRUE(last.lengths.equal(torch::tensor({1}, torch::kInt64)));
}

TEST(Buckets, SharesOfABatchComeToTheWhole) {
  const BucketedPairs source(pairs_of(mixed_lengths(120)), {.batch_rows = 7, .seed = 4});
  const auto whole = input::stream(source, 2);
  for (const auto& shares : tests::all_shares())
    for (const Share& share : shares) {
      whole->seek({0, 0});
      const auto stream = input::prefetch(source, {.depth = 3, .workers = 2, .epochs = 2});
      ASSERT_TRUE(stream->share(share));
      while (const auto batch = whole->next()) {
        const auto own = stream->next();
        ASSERT_TRUE(own.has_value());
        tests::expect_portion(*batch, *own, stream->portion(), share);
        if (!stream->portion().whole() && stream->portion().range().empty()) continue;
        EXPECT_EQ(own->bucket, batch->bucket);
        EXPECT_EQ(own->index, batch->index);
      }
      EXPECT_FALSE(stream->next().has_value());
    }
}

TEST(Buckets, UnshuffledBatchesAreTheFilesOrderBucketAfterBucket) {
  const BucketedPairs source(pairs_of({{9, 9}, {1, 1}, {30, 1}, {2, 2}, {9, 1}, {3, 3}}),
                             {.batch_rows = 2, .shuffle = false});
  const std::vector<std::vector<std::int64_t>> expected = {{1, 3}, {5}, {0, 4}, {2}};
  EXPECT_EQ(epoch_of(source, 0), expected);
  EXPECT_EQ(epoch_of(source, 3), expected);
}

TEST(Buckets, EpochsAndSeedsDifferInPairsAndInTheOrderOfBuckets) {
  const PairFile file = pairs_of(mixed_lengths(300));
  const BucketedPairs source(file, {.batch_rows = 8, .seed = 1});
  const BucketedPairs other(file, {.batch_rows = 8, .seed = 2});
  const BucketedPairs again(file, {.batch_rows = 8, .seed = 1});
  EXPECT_NE(epoch_of(source, 0), epoch_of(source, 1));
  EXPECT_NE(epoch_of(source, 0), epoch_of(other, 0));
  EXPECT_EQ(epoch_of(source, 0), epoch_of(again, 0));
  const auto buckets = [&](std::int64_t epoch) {
    std::vector<std::int64_t> found;
    for (std::int64_t i = 0; i < source.size(); ++i) found.push_back(source.at(epoch, i).bucket);
    return found;
  };
  EXPECT_NE(buckets(0), buckets(1));
  EXPECT_FALSE(std::is_sorted(buckets(0).begin(), buckets(0).end()));
  const auto sets = [](std::vector<std::vector<std::int64_t>> batches) {
    for (auto& batch : batches) std::sort(batch.begin(), batch.end());
    std::sort(batches.begin(), batches.end());
    return batches;
  };
  EXPECT_NE(sets(epoch_of(source, 0)), sets(epoch_of(source, 1))) << "the same pairs stay together";
}

TEST(Buckets, BatchesByTokensHaveTheRowsThatFit) {
  std::vector<Lengths> lengths(100, {5, 5});
  lengths.insert(lengths.end(), 100, {40, 40});
  const BucketedPairs source(pairs_of(lengths), {.batch_tokens = 200});
  std::map<std::int64_t, std::vector<std::int64_t>> rows;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    const SequenceBatch batch = source.at(0, i);
    rows[batch.bucket].push_back(batch.source.size(0));
  }
  for (auto& [bucket, sizes] : rows) std::sort(sizes.rbegin(), sizes.rend());
  EXPECT_EQ(rows[0], (std::vector<std::int64_t>{13, 13, 13, 13, 13, 13, 13, 9}));  // 200 / 15
  EXPECT_EQ(rows[3], std::vector<std::int64_t>(50, 2));                            // 200 / 90
  const BucketedPairs tight(pairs_of(lengths), {.batch_tokens = 1});
  EXPECT_EQ(tight.size(), 200) << "a row at least";
}

TEST(Buckets, TooLongPairsAreDroppedOrCutAndCounted) {
  const PairFile file = pairs_of({{5, 5}, {60, 5}, {5, 50}, {40, 49}, {90, 90}});
  const BucketedPairs dropped(file, {.shuffle = false});
  EXPECT_EQ(dropped.too_long(), 3);
  EXPECT_EQ(sorted(epoch_of(dropped, 0)), (std::vector<std::int64_t>{0, 3}));
  const BucketedPairs cut(file, {.too_long = TooLong::cut, .shuffle = false});
  EXPECT_EQ(cut.too_long(), 3);
  EXPECT_EQ(cut.pairs_in(3), 4);
  const SequenceBatch last = cut.at(0, 1);
  EXPECT_EQ(pairs_in(last), (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(last.source.size(1), 40);
  EXPECT_EQ(last.target.size(1), 51);
  EXPECT_TRUE(last.lengths.equal(torch::tensor({40, 5, 40, 40}, torch::kInt64)));
  EXPECT_EQ(last.target[1][50].item<std::int64_t>(), kEnd);
  EXPECT_EQ(last.target[0][6].item<std::int64_t>(), kEnd);
}

TEST(Buckets, StepsDrawBucketsByTheirShare) {
  std::vector<Lengths> lengths(6000, {5, 5});
  lengths.insert(lengths.end(), 2000, {10, 10});
  lengths.insert(lengths.end(), 2000, {40, 40});
  const BucketedPairs source(pairs_of(lengths), {.batch_rows = 10});
  ASSERT_EQ(source.size(), 1000);
  // A window of 200 of 1000 steps: the share's deviation is below 0.04; four of them are allowed.
  for (std::int64_t begin = 0; begin < 1000; begin += 200) {
    std::array<double, 4> share = {};
    for (std::int64_t i = begin; i < begin + 200; ++i)
      share.at(static_cast<std::size_t>(source.at(0, i).bucket)) += 1.0 / 200;
    EXPECT_NEAR(share[0], 0.6, 0.13);
    EXPECT_NEAR(share[1], 0.2, 0.11);
    EXPECT_EQ(share[2], 0);
    EXPECT_NEAR(share[3], 0.2, 0.11);
  }
}

TEST(Buckets, ThreadsGetTheSameBatches) {
  const BucketedPairs source(pairs_of(mixed_lengths(300)), {.batch_rows = 4});
  std::vector<std::vector<SequenceBatch>> found(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < found.size(); ++t)
      threads.emplace_back([&source, &mine = found[t], t] {
        const std::int64_t size = source.size();
        mine.resize(static_cast<std::size_t>(size));
        for (std::int64_t i = 0; i < size; ++i) {  // each from another place
          const std::int64_t index = (i + static_cast<std::int64_t>(t) * 17) % size;
          mine[static_cast<std::size_t>(index)] = source.at(2, index);
        }
      });
  }
  for (std::size_t t = 1; t < found.size(); ++t)
    for (std::size_t i = 0; i < found[0].size(); ++i) EXPECT_TRUE(same(found[t][i], found[0][i]));
}

TEST(Buckets, ArePrefetchedLikeAnySource) {
  const BucketedPairs source(pairs_of(mixed_lengths(60)), {.batch_rows = 4});
  const auto ahead = input::prefetch(source, {.depth = 3, .workers = 2, .epochs = 2});
  for (std::int64_t epoch = 0; epoch < 2; ++epoch)
    for (std::int64_t i = 0; i < source.size(); ++i) {
      const auto batch = ahead->next();
      ASSERT_TRUE(batch.has_value());
      EXPECT_TRUE(same(*batch, source.at(epoch, i))) << epoch << ", " << i;
    }
  EXPECT_FALSE(ahead->next().has_value());
}

TEST(Buckets, OptionsThatCannotBeAreRefused) {
  const PairFile file = pairs_of({{3, 3}});
  const auto refused = [&](const BucketOptions& options) {
    EXPECT_THROW(BucketedPairs(file, options), ConfigError);
  };
  refused({.buckets = {}});
  refused({.buckets = {{5, 10}, {10, 9}}});
  refused({.buckets = {{5, 10}, {4, 20}}});
  refused({.buckets = {{5, 10}, {5, 10}}});
  refused({.buckets = {{0, 10}}});
  refused({.buckets = {{10, 0}}});
  refused({.batch_rows = 0});
  refused({.batch_tokens = -1});
  refused({.buckets = {{3, 3}}});  // no pair is left
  EXPECT_EQ(BucketedPairs(file, {.buckets = {{3, 3}, {3, 4}}}).pairs_in(1), 1);
  EXPECT_THROW(BucketedPairs(pairs_of({}), {}), ConfigError);
  const BucketedPairs source(file, {});
  EXPECT_THROW(source.at(0, 1), std::logic_error);
  EXPECT_THROW(source.at(0, -1), std::logic_error);
}

TEST(Buckets, QuantilesHaveAboutAsManyPairsEach) {
  std::vector<Lengths> lengths;
  for (std::size_t i = 0; i < 10'000; ++i) {  // targets about as long as sources, give or take
    const std::size_t source = 1 + (i * i / 1'000'000) + i % 3;
    lengths.emplace_back(source, source + i * 7 % 4);
  }
  const PairFile file = pairs_of(lengths);
  for (const int count : {1, 2, 4, 7}) {
    const BucketedPairs source(file, {.buckets = quantile_buckets(file, count)});
    ASSERT_EQ(source.buckets().size(), static_cast<std::size_t>(count));
    EXPECT_LE(source.too_long(), 10);
    for (std::size_t b = 0; b < source.buckets().size(); ++b)
      EXPECT_NEAR(static_cast<double>(source.pairs_in(b)) * count / 10'000, 1, 0.25) << count;
  }
}

TEST(Buckets, QuantilesLeaveOutTheLongestThousandth) {
  std::vector<Lengths> lengths(1999, {8, 9});
  lengths.emplace_back(5000, 4000);
  const auto buckets = quantile_buckets(pairs_of(lengths), 3);
  ASSERT_EQ(buckets.size(), 1U) << "all are of one length";
  EXPECT_EQ(buckets[0].source, 8);
  EXPECT_EQ(buckets[0].target, 10);
  const auto few = quantile_buckets(pairs_of({{1, 1}, {3, 5}, {2, 9}}), 8);
  EXPECT_EQ(few.back().source, 3);
  EXPECT_EQ(few.back().target, 10);
}

TEST(Buckets, QuantilesRefuseWhatHasNone) {
  EXPECT_THROW(quantile_buckets(pairs_of({}), 4), ConfigError);
  EXPECT_THROW(quantile_buckets(pairs_of({{1, 1}}), 0), ConfigError);
}

}  // namespace buckets_test
