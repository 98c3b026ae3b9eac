// Towers with a memory of their own, on simulated devices.

#include "collective/exchange.h"

#include <gtest/gtest.h>

#include <random>

#include "collective/shared_memory.h"
#include "exchange_case.h"

namespace exchange_test {

using namespace exchange_case;

class ExchangeTest : public testing::Test {
 protected:
  void SetUp() override { sim::configure({.devices = kDevices}); }
};

TEST_F(ExchangeTest, EqualsThePlainTreeSumForEveryNumberOfTowersAndShards) {
  for (const int towers : {1, 2, 3, 5, 8})
    for (const int shards : {1, 2, 3, 8}) {
      const Case batch(torch::kFloat32, {7, kBlock + 3, 1, 0, 1025}, shards, false);
      const Setting setting{towers, even_cuts(shards, towers), {}};
      expect_tree_sum(batch, setting, reduce(batch, setting));
    }
}

TEST_F(ExchangeTest, EqualsThePlainTreeSumForRandomSettings) {
  std::mt19937 random(3);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const std::vector<torch::Dtype> dtypes = {torch::kFloat32, torch::kFloat64, torch::kBFloat16};
  for (int round = 0; round < 60; ++round) {
    const int shards = draw(1, 9), towers = draw(1, kDevices);
    std::vector<std::int64_t> numels;
    for (int i = draw(1, 5); i > 0; --i) numels.push_back(draw(0, 3 * kBlock));
    const Case batch(dtypes[static_cast<std::size_t>(draw(0, 2))], numels, shards, draw(0, 1) == 1);
    Setting setting{
        towers,
        {0},
        {.bucket_bytes = 4 * kBlock * draw(0, 4), .group = draw(0, towers), .packs = draw(1, 3)}};
    for (int tower = 1; tower < towers; ++tower)
      setting.cuts.push_back(draw(setting.cuts.back(), shards));
    setting.cuts.push_back(shards);
    expect_tree_sum(batch, setting, reduce(batch, setting));
  }
}

TEST_F(ExchangeTest, IsTheSharedMemorysResultOnTheCpu) {
  const Case batch(torch::kFloat32, {7, kBlock + 3, 1, 0, 1025, 33}, 5, true);
  SharedMemory cpu(std::make_unique<ThreadMeeting>(1, DeviceKind::cpu), 5);
  GradientSlice slice{&batch.layout,
                      {0, batch.layout.size},
                      arena::allocate(batch.layout, torch::kCPU),
                      std::vector<double>(static_cast<std::size_t>(batch.layout.blocks()))};
  const auto mine = sums_of(batch, 0, 1, true);
  cpu.reduce(0, mine, batch.divisor, {&slice, 1});
  const Reduced found = reduce(batch, {3, even_cuts(5, 3), {}});
  EXPECT_TRUE(same_seats(batch.layout, found.flat, slice.gradient));
  EXPECT_EQ(found.squares, slice.squares);
}

TEST_F(ExchangeTest, AParameterWithoutAnyGradientGetsZeros) {
  Case batch(torch::kFloat32, {20, kBlock}, 3, false);
  for (Gradients& shard : batch.shards) shard[0] = torch::Tensor();
  const Setting setting{2, even_cuts(3, 2), {}};
  const Reduced found = reduce(batch, setting);
  expect_tree_sum(batch, setting, found);
  EXPECT_EQ(found.reached, (std::vector<char>{0, 1}));
}

TEST_F(ExchangeTest, AbortFreesThoseWhoWait) {
  const Case batch(torch::kFloat32, {kBlock}, 3, false);
  const Setting setting{3, even_cuts(3, 3), {}};
  Exchange collective(parties_of(batch, setting), shape_of(batch, setting), meeting_of(3),
                      std::make_unique<PeerCopy>());
  std::atomic<int> freed = 0;
  run_towers(3, [&](int tower) {
    if (tower == 2) return collective.abort();
    try {
      collective.gather(tower);
    } catch (const Aborted&) {
      ++freed;
    }
  });
  EXPECT_EQ(freed, 2);
  EXPECT_THROW(collective.post(0, 0, {}), Aborted);
}

}  // namespace exchange_test
