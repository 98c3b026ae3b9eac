// Towers that share one memory. They are threads of this process.

#include "collective/shared_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <thread>

#include "collective/thread_meeting.h"
#include "tree_case.h"

namespace shared_memory_test {

using namespace std::chrono_literals;
using namespace lockstep;
using namespace lockstep::collective;
using namespace tree_case;
using arena::kBlock;

std::unique_ptr<Meeting> meeting_of(int towers) {
  return std::make_unique<ThreadMeeting>(towers, DeviceKind::cpu);
}

struct Reduced {
  torch::Tensor flat;           ///< all towers' slices, side by side
  std::vector<double> squares;  ///< of all blocks
  std::vector<char> reached;    ///< by parameter
};

Reduced reduce(const Case& batch, int towers, bool merged) {
  SharedMemory collective(meeting_of(towers), static_cast<int>(batch.shards.size()));
  Reduced result{arena::allocate(batch.layout, torch::kCPU), {}, {}};
  for (const arena::Seat& seat : batch.layout.seats)  // what is not written shows
    arena::view(result.flat, seat).fill_(std::numeric_limits<double>::quiet_NaN());
  std::vector<std::vector<double>> squares(static_cast<std::size_t>(towers));
  run_towers(towers, [&](int tower) {
    const auto range = arena::slice_of({0, {0, batch.layout.size}}, tower, towers);
    const auto blocks = static_cast<std::size_t>((range.size() + kBlock - 1) / kBlock);
    GradientSlice slice{&batch.layout, range, result.flat.narrow(0, range.begin, range.size()),
                        std::vector<double>(blocks, -1)};
    const auto mine = sums_of(batch, tower, towers, merged);
    const auto reached = collective.reduce(tower, mine, batch.divisor, {&slice, 1});
    if (tower == towers - 1) result.reached = reached;
    squares[static_cast<std::size_t>(tower)] = slice.squares;
    collective.gather(tower);  // `mine` must be readable until all have left
  });
  for (const auto& part : squares)
    result.squares.insert(result.squares.end(), part.begin(), part.end());
  return result;
}

const std::vector<std::vector<std::int64_t>> kShapes = {
    {1}, {kBlock - 1}, {kBlock}, {kBlock + 1}, {7, kBlock + 3, 1, 0, 1025, 33, 2 * kBlock - 16, 5}};

void expect_tree_sums(torch::Dtype dtype, bool holes) {
  for (const auto& numels : kShapes)
    for (int shards = 1; shards <= 9; ++shards) {
      const Case batch(dtype, numels, shards, holes);
      const torch::Tensor expected = batch.expected();
      const Reduced one = reduce(batch, 1, true);
      for (const int towers : {1, 2, 3, 5})
        for (const bool merged : {false, true}) {
          const Reduced found = reduce(batch, towers, merged);
          EXPECT_TRUE(same_bits(found.flat, expected))
              << shards << " shards, " << towers << " towers, " << batch.layout.size;
          EXPECT_EQ(found.squares, one.squares) << shards << " shards, " << towers << " towers";
        }
    }
}

TEST(SharedMemory, ReduceIsTheTreeSumInFloat32BitForBit) {
  expect_tree_sums(torch::kFloat32, false);
}
TEST(SharedMemory, ReduceIsTheTreeSumInFloat64BitForBit) {
  expect_tree_sums(torch::kFloat64, false);
}
TEST(SharedMemory, ReduceIsTheTreeSumInBFloat16BitForBit) {
  expect_tree_sums(torch::kBFloat16, false);
}
TEST(SharedMemory, UndefinedGradientsAndAbsentShardsStandForZero) {
  expect_tree_sums(torch::kFloat32, true);
  expect_tree_sums(torch::kBFloat16, true);
}

TEST(SharedMemory, AParameterWithoutAnyGradientGetsZeros) {
  Case batch(torch::kFloat32, {20, kBlock}, 3, false);
  for (Gradients& shard : batch.shards) shard[0] = torch::Tensor();
  const Reduced found = reduce(batch, 2, true);
  EXPECT_TRUE(same_bits(found.flat, batch.expected()));
  EXPECT_EQ(found.flat.narrow(0, 0, 20).count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(found.reached, (std::vector<char>{0, 1}));
}

TEST(SharedMemory, WithoutAnyShardTheGradientIsZero) {
  Case batch(torch::kFloat32, {20, kBlock}, 4, false);
  for (Gradients& shard : batch.shards) shard.clear();
  const Reduced found = reduce(batch, 3, true);
  EXPECT_EQ(found.flat.count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(found.squares, (std::vector<double>{0, 0}));
}

TEST(SharedMemory, SquaresAreThoseOfTheMeanGradientBlockByBlock) {
  const Case batch(torch::kFloat32, kShapes.back(), 5, false);
  const torch::Tensor mean = batch.expected().to(torch::kFloat64);
  const Reduced found = reduce(batch, 3, true);
  ASSERT_EQ(found.squares.size(), static_cast<std::size_t>(batch.layout.blocks()));
  for (std::int64_t block = 0; block < batch.layout.blocks(); ++block) {
    const double naive =
        mean.slice(0, block * kBlock, (block + 1) * kBlock).square().sum().item<double>();
    // Both sum 4096 doubles, in different orders: each addition may round by 1.1e-16 of the sum.
    EXPECT_NEAR(found.squares[static_cast<std::size_t>(block)], naive, 1e-12 * naive);
  }
}

/// Terms of very different sizes: their sum depends on the order.
std::vector<double> awkward_terms(int count) {
  std::vector<double> terms;
  for (int i = 0; i < count; ++i)
    terms.push_back((i % 2 ? -1 : 1) * std::pow(10, i % 17) / (i + 3));
  return terms;
}

std::span<const double> part(const std::vector<double>& terms, int tower, int towers) {
  const auto cut = [&](int t) {
    return terms.size() * static_cast<std::size_t>(t * t) /
           static_cast<std::size_t>(towers * towers);
  };
  return std::span(terms).subspan(cut(tower), cut(tower + 1) - cut(tower));  // uneven, some empty
}

/// Every tower sums in `rounds` calls, one after the other; how often it was not `expected`.
int wrong_sums(SharedMemory& collective, int towers, int rounds) {
  const std::vector<double> terms = awkward_terms(100);
  const double expected = std::accumulate(terms.begin(), terms.end(), 0.0);
  std::atomic<int> wrong = 0;
  // Others may read the lists of a call until the next one has returned.
  std::vector<std::array<std::vector<SumTerms>, 3>> lists(static_cast<std::size_t>(towers));
  run_towers(towers, [&](int tower) {
    for (int round = 0; round < rounds; ++round) {
      const bool spread = round % 2 == 0;  // every other round tower 0 brings everything
      const auto mine = spread ? part(terms, tower, towers)
                               : std::span(terms).first(tower == 0 ? terms.size() : 0);
      lists[static_cast<std::size_t>(tower)][static_cast<std::size_t>(round % 3)] = {mine};
      wrong +=
          collective.sum(
              tower, lists[static_cast<std::size_t>(tower)][static_cast<std::size_t>(round % 3)]) !=
          expected;
    }
  });
  return wrong;
}

TEST(SharedMemory, ASumDoesNotDependOnWhoBroughtWhichTerm) {
  const std::vector<double> terms = awkward_terms(100);
  ASSERT_NE(std::accumulate(terms.begin(), terms.end(), 0.0),
            std::accumulate(terms.rbegin(), terms.rend(), 0.0));
  for (const int towers : {1, 2, 3, 5}) {
    SharedMemory collective(meeting_of(towers), towers);
    EXPECT_EQ(wrong_sums(collective, towers, 100), 0) << towers << " towers";
  }
}

TEST(SharedMemory, ListsAreSummedOneAfterTheOther) {
  const std::vector<double> terms = awkward_terms(100);
  const double expected = std::accumulate(terms.begin(), terms.end(), 0.0);
  for (const int towers : {1, 2, 3, 5}) {
    SharedMemory collective(meeting_of(towers), towers);
    std::vector<std::vector<SumTerms>> lists(static_cast<std::size_t>(towers));
    std::vector<double> found(static_cast<std::size_t>(towers));
    run_towers(towers, [&](int tower) {
      for (int list = 0; list < 4; ++list) {
        const auto whole = std::span(terms).subspan(static_cast<std::size_t>(25 * list), 25);
        const auto cut = [&](int t) { return static_cast<std::size_t>(25 * t / towers); };
        lists[static_cast<std::size_t>(tower)].push_back(
            whole.subspan(cut(tower), cut(tower + 1) - cut(tower)));
      }
      found[static_cast<std::size_t>(tower)] =
          collective.sum(tower, lists[static_cast<std::size_t>(tower)]);
    });
    for (const double sum : found) EXPECT_EQ(sum, expected) << towers << " towers";
  }
}

using Call = std::function<void(SharedMemory&, int tower)>;

const std::vector<std::pair<const char*, Call>> kCalls = {
    {"reduce", [](SharedMemory& c, int tower) { c.reduce(tower, {}, 1, {}); }},
    {"gather", [](SharedMemory& c, int tower) { c.gather(tower); }},
    {"sum", [](SharedMemory& c, int tower) { c.sum(tower, {}); }}};

/// Tower 2 of 3 comes late and aborts; how many of the others were freed with Aborted.
int freed_by_abort(SharedMemory& collective, const Call& call) {
  std::atomic<int> freed = 0;
  run_towers(3, [&](int tower) {
    if (tower == 2) {
      std::this_thread::sleep_for(10ms);
      collective.abort();
      return;
    }
    try {
      call(collective, tower);
    } catch (const Aborted&) {
      ++freed;
    }
  });
  return freed;
}

TEST(SharedMemory, AbortFreesThoseWhoWaitInAnyCall) {
  for (const auto& [name, call] : kCalls) {
    SharedMemory collective(meeting_of(3), 3);
    EXPECT_EQ(freed_by_abort(collective, call), 2) << name;
    EXPECT_TRUE(collective.aborted());
  }
}

TEST(SharedMemory, AfterAnAbortEveryCallThrowsUntilReset) {
  SharedMemory collective(meeting_of(1), 1);
  collective.abort();
  for (const auto& [name, call] : kCalls) EXPECT_THROW(call(collective, 0), Aborted) << name;
  collective.reset();
  EXPECT_FALSE(collective.aborted());
  for (const auto& [name, call] : kCalls) EXPECT_NO_THROW(call(collective, 0)) << name;
}

TEST(SharedMemory, AfterAnAbortInAnyCallAndAResetSumsAreRightAgain) {
  for (const auto& [name, call] : kCalls) {
    SharedMemory collective(meeting_of(3), 3);
    freed_by_abort(collective, call);
    collective.reset();
    EXPECT_EQ(wrong_sums(collective, 3, 10), 0) << "after an abort in " << name;
  }
}

TEST(SharedMemory, WaitedIsTheTimeForTheLatestTower) {
  for (const auto& [name, call] : kCalls) {
    SharedMemory collective(meeting_of(3), 3);
    std::atomic<int> early = 0;
    run_towers(3, [&](int tower) {
      if (tower == 1) {
        while (early < 2) std::this_thread::yield();
        std::this_thread::sleep_for(50ms);
      } else {
        ++early;
      }
      call(collective, tower);
    });
    for (const int tower : {0, 2}) {
      EXPECT_GT(collective.waited(tower), 25ms) << name;  // half: a busy machine may hold it up
      EXPECT_GT(collective.waited(tower), collective.waited(1)) << name;
    }
  }
}

}  // namespace shared_memory_test
