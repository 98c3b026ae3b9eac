#include <gtest/gtest.h>
#include <lockstep/random.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace random_test {

using namespace lockstep;

std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < n; ++i) order.push_back(permuted(i, n, seed, epoch));
  return order;
}

/// Pearson's statistic over its degrees of freedom: about 1 if all are equally likely.
double chi_square(const std::vector<std::int64_t>& counts) {
  const double mean = static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0L)) /
                      static_cast<double>(counts.size());
  double sum = 0;
  for (const std::int64_t count : counts)
    sum += std::pow(static_cast<double>(count) - mean, 2) / mean;
  return sum / static_cast<double>(counts.size() - 1);
}

TEST(KeyedRandom, BelongsToItsKeyAlone) {
  KeyedRandom one(7, 3, 5), other(7, 3, 5);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(one.next(), other.next());
}

TEST(KeyedRandom, IsTheSameInEveryVersion) {
  KeyedRandom random(1, 2, 3);
  EXPECT_EQ(random.next(), 0xc74a7bbc5440ecb5U);
  EXPECT_EQ(random.next(), 0x4526ac11caa8bab9U);
  EXPECT_EQ(permutation(8, 1, 2), (std::vector<std::int64_t>{3, 6, 7, 5, 1, 4, 2, 0}));
}

TEST(KeyedRandom, AnyPartOfTheKeyChangesAllNumbers) {
  std::set<std::uint64_t> seen;
  int drawn = 0;
  for (const auto& [seed, a, b] :
       std::vector<std::tuple<std::uint64_t, std::int64_t, std::int64_t>>{{0, 0, 0},
                                                                          {1, 0, 0},
                                                                          {0, 1, 0},
                                                                          {0, 0, 1},
                                                                          {1, 1, 0},
                                                                          {0, 1, 1},
                                                                          {1, 0, 1},
                                                                          {0, -1, 0},
                                                                          {0, 0, -1},
                                                                          {2, 1, 0},
                                                                          {2, 0, 1},
                                                                          {1, 1, 1}}) {
    KeyedRandom random(seed, a, b);
    for (int i = 0; i < 1000; ++i, ++drawn) seen.insert(random.next());
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(drawn));
}

TEST(KeyedRandom, UniformNumbersFillTheUnitIntervalEvenly) {
  KeyedRandom random(1, 0, 0);
  std::vector<std::int64_t> counts(100);
  for (int i = 0; i < 100000; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    ++counts[static_cast<std::size_t>(value * 100)];
  }
  EXPECT_NEAR(chi_square(counts), 1, 0.5);  // deviation: sqrt(2 / 99) = 0.14
}

TEST(KeyedRandom, FirstNumbersOfNeighbouringKeysAreEven) {
  std::vector<std::int64_t> counts(100);
  for (int epoch = 0; epoch < 100; ++epoch)
    for (int item = 0; item < 1000; ++item)
      ++counts[static_cast<std::size_t>(KeyedRandom(0, epoch, item).uniform() * 100)];
  EXPECT_NEAR(chi_square(counts), 1, 0.5);
}

TEST(KeyedRandom, BelowIsEvenAndNeverReachesItsLimit) {
  for (const std::int64_t n : {1, 2, 3, 10, 97}) {
    KeyedRandom random(2, n, 0);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(n));
    for (int i = 0; i < 20000; ++i) ++counts.at(static_cast<std::size_t>(random.below(n)));
    if (n > 50) {
      EXPECT_NEAR(chi_square(counts), 1, 0.6);
    }
    for (const std::int64_t count : counts)
      EXPECT_NEAR(static_cast<double>(count), 20000.0 / static_cast<double>(n),
                  5 * std::sqrt(20000.0 / static_cast<double>(n)));
  }
  KeyedRandom random(3, 0, 0);
  // Of a range of 3 * 2^61, a remainder of 64 bits alone would favour the first third.
  constexpr std::int64_t kLarge = std::int64_t{3} << 61U;
  int first_third = 0;
  for (int i = 0; i < 9000; ++i) first_third += random.below(kLarge) < kLarge / 3 ? 1 : 0;
  EXPECT_NEAR(first_third, 3000, 250);
  EXPECT_THROW(random.below(0), std::logic_error);
}

TEST(CombinedSeed, DependsOnEveryNumberAndTheirOrder) {
  const std::vector<std::vector<std::int64_t>> keys = {{}, {0}, {1}, {0, 0}, {0, 1}, {1, 0}, {-1}};
  std::set<std::uint64_t> seeds;
  for (const auto& key : keys)
    for (const std::uint64_t seed : {0U, 1U}) seeds.insert(combined_seed(seed, key));
  EXPECT_EQ(seeds.size(), 2 * keys.size());
}

TEST(Permuted, HasEveryItemOnce) {
  std::vector<std::int64_t> sizes(201);
  std::iota(sizes.begin(), sizes.end(), 0);
  for (const std::int64_t more : {1000, 65536, 65537}) sizes.push_back(more);
  for (const std::int64_t n : sizes) {
    std::vector<std::int64_t> order = permutation(n, 11, 4);
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i) << n;
  }
}

TEST(Permuted, StaysInsideTheLargestRange) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 1000; ++i) {
    seen.insert(permuted(i, kMost, 0, 0));
    seen.insert(permuted(kMost - 1 - i, kMost, 0, 0));
  }
  EXPECT_EQ(seen.size(), 2000U);
  EXPECT_GE(*seen.begin(), 0);
  EXPECT_LT(*seen.rbegin(), kMost);
}

TEST(Permuted, DiffersByEpochAndSeed) {
  EXPECT_NE(permutation(100, 1, 0), permutation(100, 1, 1));
  EXPECT_NE(permutation(100, 1, 0), permutation(100, 2, 0));
  EXPECT_EQ(permutation(100, 1, 0), permutation(100, 1, 0));
}

TEST(Permuted, EveryOrderOfAFewItemsIsAboutAsLikely) {
  for (const auto& [n, orders] :
       std::map<std::int64_t, std::size_t>{{2, 2}, {3, 6}, {4, 24}, {5, 120}}) {
    std::map<std::vector<std::int64_t>, std::int64_t> found;
    for (std::int64_t epoch = 0; epoch < 100 * static_cast<std::int64_t>(orders); ++epoch)
      ++found[permutation(n, 5, epoch)];
    EXPECT_EQ(found.size(), orders) << n;
    for (const auto& [order, count] : found) EXPECT_NEAR(static_cast<double>(count), 100, 50) << n;
  }
}

TEST(Permuted, EveryItemIsAsLikelyAtEveryPlace) {
  constexpr std::int64_t kSize = 10;
  std::vector<std::int64_t> counts(kSize * kSize);
  for (std::int64_t epoch = 0; epoch < 2000; ++epoch)
    for (std::int64_t i = 0; i < kSize; ++i)
      ++counts[static_cast<std::size_t>(i * kSize + permuted(i, kSize, 8, epoch))];
  EXPECT_NEAR(chi_square(counts), 0.9, 0.4);  // rows and columns are bound: 81 of 99 are free
}

/// In a random order neighbours are n / 3 apart on average.
TEST(Permuted, NeighboursDoNotStayTogether) {
  const std::vector<std::int64_t> order = permutation(60000, 3, 0);
  double sum = 0;
  for (std::size_t i = 1; i < order.size(); ++i)
    sum += std::abs(static_cast<double>(order[i] - order[i - 1]));
  EXPECT_NEAR(sum / 60000, 20000, 300);
}

TEST(Permuted, RefusesAnItemThatIsNotThere) {
  EXPECT_THROW(permuted(0, 0, 0, 0), std::logic_error);
  EXPECT_THROW(permuted(5, 5, 0, 0), std::logic_error);
  EXPECT_THROW(permuted(-1, 5, 0, 0), std::logic_error);
}

}  // namespace random_test
