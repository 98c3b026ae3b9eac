// Towers with a memory of their own, on simulated devices.

#include "collective/exchange.h"

#include <gtest/gtest.h>
#include <lockstep/sim.h>

#include <random>

#include "collective/peer_copy.h"
#include "collective/shared_memory.h"
#include "collective/thread_meeting.h"
#include "device/accelerator.h"
#include "tree_case.h"

namespace {

using namespace tree_case;
using arena::kBlock;

constexpr int kDevices = 8;

std::unique_ptr<Meeting> meeting_of(int towers) {
  return std::make_unique<ThreadMeeting>(towers, DeviceKind::sim);
}

struct Setting {
  int towers = 1;
  std::vector<int> cuts;  ///< tower t computes shards cuts[t] to cuts[t + 1]
  Exchanging how;
  friend std::ostream& operator<<(std::ostream& out, const Setting& s) {
    out << s.towers << " towers, groups of " << s.how.group << ", " << s.how.packs << " packs, "
        << s.how.bucket_bytes << " bytes a bucket, cuts";
    for (const int cut : s.cuts) out << " " << cut;
    return out;
  }
};

std::vector<int> even_cuts(int shards, int towers) {
  std::vector<int> cuts;
  for (int tower = 0; tower <= towers; ++tower) cuts.push_back(shards * tower / towers);
  return cuts;
}

/// A tower's sums on its device, merged as far as it can.
std::vector<ShardSum> device_sums(const Case& batch, const Setting& setting, int tower,
                                  const torch::Device& device) {
  const int shards = static_cast<int>(batch.shards.size());
  const int first = setting.cuts[static_cast<std::size_t>(tower)];
  const int end = setting.cuts[static_cast<std::size_t>(tower) + 1];
  std::vector<Gradients> sums(batch.shards.size());
  for (int shard = first; shard < end; ++shard) {
    sums[static_cast<std::size_t>(shard)] = batch.shards[static_cast<std::size_t>(shard)];
    for (const auto& [into, from] : merges_after(shard, first, shards))
      merge(sums[static_cast<std::size_t>(into)], sums[static_cast<std::size_t>(from)]);
  }
  std::vector<ShardSum> result;
  for (int shard = first; shard < end; ++shard) {
    Gradients& sum = sums[static_cast<std::size_t>(shard)];
    if (sum.empty()) continue;
    for (torch::Tensor& gradient : sum)
      if (gradient.defined()) gradient = gradient.to(device);
    result.push_back({shard, std::move(sum)});
  }
  return result;
}

struct Reduced {
  torch::Tensor flat;                     ///< all towers' slices, side by side
  std::vector<double> squares;            ///< of all blocks
  std::vector<torch::Tensor> parameters;  ///< by tower, after gather
  std::vector<char> reached;              ///< by parameter
};

Reduced reduce(const Case& batch, const Setting& setting) {
  const Shape shape{static_cast<int>(batch.shards.size()),
                    {batch.layout},
                    arena::buckets({batch.layout}, setting.how.bucket_bytes),
                    setting.how};
  std::vector<Party> parties;
  for (int tower = 0; tower < setting.towers; ++tower) {
    const Device device{DeviceKind::sim, tower};
    parties.push_back({device,
                       setting.cuts[static_cast<std::size_t>(tower)],
                       setting.cuts[static_cast<std::size_t>(tower) + 1],
                       {arena::allocate(batch.layout, device::torch_device(device))}});
  }
  Exchange collective(parties, shape, meeting_of(setting.towers), std::make_unique<PeerCopy>());
  Reduced result{arena::allocate(batch.layout, torch::kCPU), {}, {}, {}};
  std::vector<std::vector<GradientSlice>> slices(parties.size());
  run_towers(setting.towers, [&](int tower) {
    const Party& party = parties[static_cast<std::size_t>(tower)];
    const torch::Device place = device::torch_device(party.device);
    const c10::DeviceGuard guard(place);
    auto& own = slices[static_cast<std::size_t>(tower)];
    for (const arena::Bucket& bucket : shape.buckets) {
      const auto range = arena::slice_of(bucket, tower, setting.towers);
      const auto blocks = static_cast<std::size_t>((range.size() + kBlock - 1) / kBlock);
      own.push_back({&shape.layouts[0], range,
                     torch::full({range.size()}, 7, torch::dtype(batch.layout.dtype).device(place)),
                     std::vector<double>(blocks, -1)});
    }
    const auto mine = device_sums(batch, setting, tower, place);
    // Some buckets early, from the last to the first, as backward does; the rest with reduce.
    for (std::size_t bucket = shape.buckets.size(); bucket-- > 0;)
      if ((static_cast<int>(bucket) + tower) % 3 != 0) collective.post(tower, bucket, mine);
    const auto reached = collective.reduce(tower, mine, batch.divisor, own);
    if (tower == setting.towers - 1) result.reached = reached;
    for (const GradientSlice& slice : own)
      torch::Tensor(party.parameters[0])
          .narrow(0, slice.range.begin, slice.range.size())
          .copy_(slice.gradient);
    collective.gather(tower);
  });
  for (std::size_t bucket = 0; bucket < shape.buckets.size(); ++bucket)
    for (const auto& own : slices) {
      const GradientSlice& slice = own[bucket];
      result.flat.narrow(0, slice.range.begin, slice.range.size()).copy_(slice.gradient);
      result.squares.insert(result.squares.end(), slice.squares.begin(), slice.squares.end());
    }
  for (const Party& party : parties) result.parameters.push_back(party.parameters[0].cpu());
  return result;
}

/// Bit for bit, gaps between seats left out.
bool same_seats(const arena::Layout& layout, const torch::Tensor& a, const torch::Tensor& b) {
  for (const arena::Seat& seat : layout.seats)
    if (!same_bits(arena::view(a, seat).clone(), arena::view(b, seat).clone())) return false;
  return true;
}

void expect_tree_sum(const Case& batch, const Setting& setting) {
  const Reduced found = reduce(batch, setting);
  const torch::Tensor expected = batch.expected();
  EXPECT_TRUE(same_seats(batch.layout, found.flat, expected)) << setting;
  for (const torch::Tensor& parameters : found.parameters)
    EXPECT_TRUE(same_seats(batch.layout, parameters, expected)) << "gathered: " << setting;
  const Reduced one =
      reduce(batch, {1, {0, static_cast<int>(batch.shards.size())}, {.bucket_bytes = 0}});
  EXPECT_EQ(found.squares, one.squares) << setting;
}

class ExchangeTest : public testing::Test {
 protected:
  void SetUp() override { sim::configure({.devices = kDevices}); }
};

TEST_F(ExchangeTest, EqualsThePlainTreeSumForEveryNumberOfTowersAndShards) {
  for (const int towers : {1, 2, 3, 5, 8})
    for (const int shards : {1, 2, 3, 8}) {
      const Case batch(torch::kFloat32, {7, kBlock + 3, 1, 0, 1025}, shards, false);
      expect_tree_sum(batch, {towers, even_cuts(shards, towers), {}});
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
    expect_tree_sum(batch, setting);
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
  expect_tree_sum(batch, setting);
  EXPECT_EQ(reduce(batch, setting).reached, (std::vector<char>{0, 1}));
}

TEST_F(ExchangeTest, AbortFreesThoseWhoWait) {
  const Case batch(torch::kFloat32, {kBlock}, 3, false);
  std::vector<Party> parties;
  for (int tower = 0; tower < 3; ++tower) {
    const Device device{DeviceKind::sim, tower};
    parties.push_back(
        {device, tower, tower + 1, {arena::allocate(batch.layout, device::torch_device(device))}});
  }
  Exchange collective(parties, {3, {batch.layout}, arena::buckets({batch.layout}, 0), {}},
                      meeting_of(3), std::make_unique<PeerCopy>());
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

}  // namespace
