// The tree of shards, with sums written out as text: "((0+1)+2)".

#include "collective/tree.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <set>
#include <string>
#include <utility>

namespace tree_test {

using lockstep::collective::Merge;
using lockstep::collective::merges_after;
using lockstep::collective::merges_left;

using Sums = std::vector<std::string>;  // by shard; empty text: nothing there
using Cuts = std::vector<int>;          // tower t computes shards cuts[t] to cuts[t + 1]
using Pairs = std::multiset<std::pair<int, int>>;

std::string& at(Sums& sums, int shard) { return sums[static_cast<std::size_t>(shard)]; }

void merge(Sums& sums, int into, int from) {
  std::string term = std::exchange(at(sums, from), "");
  if (term.empty()) return;
  std::string& sum = at(sums, into);
  sum = sum.empty() ? term : "(" + sum + "+" + term + ")";
}

Sums leaves(const std::vector<bool>& present) {
  Sums sums(present.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (present[i]) sums[i] = std::to_string(i);
  return sums;
}

/// The definition: stride 1, 2, 4, ...
std::string plain_tree(const std::vector<bool>& present, Pairs* merges = nullptr) {
  Sums sums = leaves(present);
  const int shards = static_cast<int>(present.size());
  for (int stride = 1; stride < shards; stride *= 2)
    for (int into = 0; into + stride < shards; into += 2 * stride) {
      merge(sums, into, into + stride);
      if (merges) merges->insert({into, into + stride});
    }
  return at(sums, 0);
}

/// Merges inside the towers first, then what is left over all.
std::string by_towers(const std::vector<bool>& present, const Cuts& cuts, Pairs* merges = nullptr) {
  const int shards = static_cast<int>(present.size());
  const Sums shard_sums = leaves(present);
  Sums sums(present.size());
  for (std::size_t tower = 0; tower + 1 < cuts.size(); ++tower)
    for (int shard = cuts[tower]; shard < cuts[tower + 1]; ++shard) {
      at(sums, shard) = shard_sums[static_cast<std::size_t>(shard)];
      for (const Merge& step : merges_after(shard, cuts[tower], shards)) {
        EXPECT_GE(step.into, cuts[tower]);
        EXPECT_LE(step.from, shard);
        merge(sums, step.into, step.from);
        if (merges) merges->insert({step.into, step.from});
      }
    }
  std::vector<bool> held;
  for (const std::string& sum : sums) held.push_back(!sum.empty());
  for (const Merge& step : merges_left(held)) {
    merge(sums, step.into, step.from);
    if (merges) merges->insert({step.into, step.from});
  }
  for (std::size_t i = 1; i < sums.size(); ++i) EXPECT_EQ(sums[i], "") << "left in shard " << i;
  return at(sums, 0);
}

Cuts balanced(int shards, int towers) {
  Cuts cuts;
  for (int tower = 0; tower <= towers; ++tower) cuts.push_back(shards * tower / towers);
  return cuts;
}

std::vector<bool> all_of(int shards) {
  return std::vector<bool>(static_cast<std::size_t>(shards), true);
}

std::vector<bool> bits(unsigned mask, int shards) {
  std::vector<bool> present;
  for (int i = 0; i < shards; ++i) present.push_back((mask >> i & 1U) != 0);
  return present;
}

TEST(Tree, IsTheOneWrittenHere) {
  EXPECT_EQ(by_towers(all_of(1), {0, 1}), "0");
  EXPECT_EQ(by_towers(all_of(3), {0, 3}), "((0+1)+2)");
  EXPECT_EQ(by_towers(all_of(4), {0, 4}), "((0+1)+(2+3))");
  EXPECT_EQ(by_towers(all_of(7), {0, 3, 7}), "(((0+1)+(2+3))+((4+5)+6))");
}

TEST(Tree, IsTheSameForEveryNumberOfTowers) {
  for (int shards = 1; shards <= 17; ++shards)
    for (int towers = 1; towers <= 5; ++towers) {
      Pairs expected, found;
      EXPECT_EQ(by_towers(all_of(shards), balanced(shards, towers), &found),
                plain_tree(all_of(shards), &expected))
          << shards << " shards, " << towers << " towers";
      EXPECT_EQ(found, expected) << shards << " shards, " << towers << " towers";
    }
}

TEST(Tree, IsTheSameForEveryCutIntoThree) {
  for (int shards = 1; shards <= 17; ++shards)
    for (int first = 0; first <= shards; ++first)
      for (int second = first; second <= shards; ++second)
        EXPECT_EQ(by_towers(all_of(shards), {0, first, second, shards}), plain_tree(all_of(shards)))
            << shards << " shards cut at " << first << " and " << second;
}

TEST(Tree, EmptyShardsLeaveTheRestOfTheTreeAsItIs) {
  for (int shards = 1; shards <= 8; ++shards)
    for (unsigned mask = 0; mask < 1U << shards; ++mask)
      for (int towers = 1; towers <= 5; ++towers)
        EXPECT_EQ(by_towers(bits(mask, shards), balanced(shards, towers)),
                  plain_tree(bits(mask, shards)))
            << shards << " shards, mask " << mask << ", " << towers << " towers";
}

TEST(Tree, EmptyShardsOfManyLeaveTheRestOfTheTreeAsItIs) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round)
    for (const int shards : {9, 13, 16, 17})
      for (const int towers : {1, 2, 3, 5}) {
        const std::vector<bool> present = bits(static_cast<unsigned>(random()), shards);
        EXPECT_EQ(by_towers(present, balanced(shards, towers)), plain_tree(present));
      }
}

TEST(Tree, ATowerHoldsOneSumABinaryDigitAtMost) {
  // That is why memory does not grow with the number of shards.
  const int shards = 17;
  int held = 0;
  for (int shard = 0; shard < shards; ++shard) {
    held += 1 - static_cast<int>(merges_after(shard, 0, shards).size());
    const bool last = shard + 1 == shards;
    EXPECT_EQ(held, last ? 1 : std::popcount(static_cast<unsigned>(shard + 1))) << shard;
  }
}

TEST(Tree, NothingIsLeftToMergeWhenNothingIsThere) {
  EXPECT_TRUE(merges_left({}).empty());
  EXPECT_TRUE(merges_left({false, false, false}).empty());
  EXPECT_TRUE(merges_left({true, false, false}).empty());
  EXPECT_EQ(merges_left({false, false, true}), (std::vector<Merge>{{0, 2}}));
}

}  // namespace tree_test
