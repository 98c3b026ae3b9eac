#include <gtest/gtest.h>
#include <lockstep/input/reservoir.h>

#include <algorithm>
#include <numeric>

namespace reservoir_test {

using lockstep::input::Reservoir;

std::vector<int> sample(int items, std::int64_t most, std::uint64_t seed) {
  Reservoir<int> reservoir(most, seed);
  for (int i = 0; i < items; ++i) reservoir.add(i);
  EXPECT_EQ(reservoir.seen(), items);
  return std::move(reservoir).take();
}

TEST(Reservoir, KeepsAllOfAFewInTheirOrder) {
  for (const int items : {0, 1, 9, 10}) {
    std::vector<int> all(static_cast<std::size_t>(items));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sample(items, 10, 1), all);
  }
}

TEST(Reservoir, BelongsToItsSeed) {
  EXPECT_EQ(sample(1000, 10, 1), sample(1000, 10, 1));
  EXPECT_NE(sample(1000, 10, 1), sample(1000, 10, 2));
}

TEST(Reservoir, DrawsEachItemAsOftenAsAnother) {
  constexpr int kItems = 50, kDraws = 4000, kMost = 10;
  std::vector<int> count(kItems);
  for (int draw = 0; draw < kDraws; ++draw)
    for (const int item : sample(kItems, kMost, static_cast<std::uint64_t>(draw)))
      ++count[static_cast<std::size_t>(item)];
  // Expected 800 each, with a standard deviation of 25: five of them.
  for (const int found : count) EXPECT_NEAR(found, kDraws * kMost / kItems, 127);
}

TEST(Reservoir, OfNothingTakesNothing) { EXPECT_TRUE(sample(5, 0, 1).empty()); }

}  // namespace reservoir_test
