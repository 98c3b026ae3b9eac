// Which tower computes which shards.

#include "strategy/balance.h"

#include <gtest/gtest.h>

#include "strategy/torn.h"

namespace balance_test {

using namespace lockstep;
using namespace lockstep::strategy;

std::vector<Seconds> seconds(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

TEST(Balance, EvenRangesDifferByAtMostOneShard) {
  EXPECT_EQ(even_ranges(8, 4), (Ranges{{0, 2}, {2, 4}, {4, 6}, {6, 8}}));
  EXPECT_EQ(even_ranges(4, 3), (Ranges{{0, 1}, {1, 2}, {2, 4}}));
  EXPECT_EQ(even_ranges(2, 3), (Ranges{{0, 0}, {0, 1}, {1, 2}}));
  EXPECT_EQ(even_ranges(5, 1), (Ranges{{0, 5}}));
}

TEST(Balance, EqualTowersKeepTheirShards) {
  for (const std::size_t towers : {1, 2, 3, 5})
    for (const int shards : {1, 4, 8, 9}) {
      const Ranges now = even_ranges(shards, towers);
      EXPECT_EQ(balanced(now, std::vector<Seconds>(towers, Seconds(0.1))), now);
    }
}

TEST(Balance, ASlowTowerGetsFewerShards) {
  EXPECT_EQ(balanced({{0, 4}, {4, 8}}, seconds({3, 1})), (Ranges{{0, 2}, {2, 8}}));
  EXPECT_EQ(balanced({{0, 4}, {4, 8}}, seconds({1, 3})), (Ranges{{0, 6}, {6, 8}}));
}

TEST(Balance, ATowerThatIsFarTooSlowGetsNone) {
  EXPECT_EQ(balanced({{0, 2}, {2, 4}}, seconds({100, 1})), (Ranges{{0, 0}, {0, 4}}));
}

TEST(Balance, ATowerWithoutATimeIsTried) {
  EXPECT_EQ(balanced({{0, 0}, {0, 2}}, seconds({0, 1})), (Ranges{{0, 2}, {2, 2}}));
}

TEST(Balance, ALittleIsNotWorthIt) {
  const Ranges now = {{0, 21}, {21, 41}};  // 21 of 1.01 s against 20 of 1 s
  EXPECT_EQ(balanced(now, seconds({1.01, 1})), now);
}

TEST(Balance, RangesAreAllShardsInOrderWhateverTheTimes) {
  for (int seed = 1; seed < 50; ++seed) {
    std::vector<Seconds> times;
    for (int i = 0; i < 5; ++i) times.emplace_back((seed * (7 * i + 3)) % 11 + 0.5);
    int next = 0;
    for (const ShardRange& range : balanced(even_ranges(13, 5), times)) {
      EXPECT_EQ(range.first, next);
      EXPECT_GE(range.size(), 0);
      next = range.end;
    }
    EXPECT_EQ(next, 13);
  }
}

TEST(Balance, TimesAreSmoothedFromTheSecondOn) {
  EXPECT_EQ(smoothed(Seconds(0), Seconds(4)), Seconds(4));
  EXPECT_EQ(smoothed(Seconds(4), Seconds(2)), Seconds(3));
}

TEST(Torn, WeightsAreTornUntilAChangeIsDone) {
  Torn torn;
  EXPECT_FALSE(torn);
  torn.until_done([&] {
    EXPECT_TRUE(torn);
    EXPECT_THROW(torn.require_whole(), std::logic_error);
  });
  EXPECT_NO_THROW(torn.require_whole());
}

TEST(Torn, AChangeThatThrowsLeavesThemTornUntilAnotherIsDone) {
  Torn torn;
  EXPECT_THROW(torn.until_done([] { throw ConfigError("half way"); }), ConfigError);
  EXPECT_TRUE(torn);
  torn.until_done([] {});
  EXPECT_FALSE(torn);
}

}  // namespace balance_test
