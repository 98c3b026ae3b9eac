// Sources fetched ahead on several threads.

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <lockstep/input.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include "numbers.h"

namespace prefetch_test {

using namespace lockstep;
using namespace std::chrono_literals;
using input::Prefetch;
using tests::Counting;
using tests::Numbers;
using tests::rest_of;

/// Items take as long as their number wants, so that workers overtake each other.
auto uneven(std::int64_t count) {
  return input::map(Counting{count}, [](std::int64_t item) {
    std::this_thread::sleep_for(std::chrono::microseconds(item * 7919 % 5 * 100));
    return item;
  });
}

TEST(Prefetch, AnyNumberOfWorkersGivesTheSameStream) {
  const Numbers expected = rest_of(input::stream(Counting{23}, 3));
  for (const int workers : {1, 2, 3, 8})
    for (const int depth : {1, 2, 4, 100})
      EXPECT_EQ(
          rest_of(input::prefetch(uneven(23), {.depth = depth, .workers = workers, .epochs = 3})),
          expected)
          << workers << " workers, depth " << depth;
}

TEST(Prefetch, PositionIsThatOfTheNextItemHandedOut) {
  const auto ahead = input::prefetch(Counting{5}, {.depth = 4, .workers = 2, .epochs = 2});
  std::this_thread::sleep_for(10ms);  // for the workers to be ahead
  EXPECT_EQ(ahead->position(), (Position{0, 0}));
  for (int i = 0; i < 7; ++i) ahead->next();
  EXPECT_EQ(ahead->position(), (Position{1, 2}));
  rest_of(ahead);
  EXPECT_EQ(ahead->position(), (Position{2, 0}));
}

TEST(Prefetch, IsRestoredAtEveryPoint) {
  for (const int workers : {1, 3})
    tests::expect_restorable([=] {
      return input::prefetch(input::batch(input::shuffle(uneven(9), 2), 2),
                             {.depth = 3, .workers = workers, .epochs = 2});
    });
}

TEST(Prefetch, RefusesWhatIsNoPositionAndLosesNothing) {
  const auto ahead = input::prefetch(Counting{4}, {.workers = 2, .epochs = 2});
  ahead->next();
  for (const Position& wrong : std::vector<Position>{{}, {0}, {0, 4}, {-1, 0}, {2, 1}, {0, 0, 0}})
    tests::expect_refused(*ahead, wrong);
  EXPECT_EQ(rest_of(ahead), (Numbers{1, 2, 3, 1000, 1001, 1002, 1003}));
}

TEST(Prefetch, AnErrorComesOutAtItsPlaceAndTheItemIsTriedAgain) {
  for (const int workers : {1, 2, 4}) {
    auto failures = std::make_shared<std::atomic<int>>(2);
    const auto ahead = input::prefetch(input::map(uneven(10),
                                                  [failures](std::int64_t item) {
                                                    if (item == 5 && (*failures)-- > 0)
                                                      throw std::runtime_error("item 5");
                                                    return item;
                                                  }),
                                       {.depth = 4, .workers = workers, .epochs = 1});
    for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(ahead->next(), i);
    for (int i = 0; i < 2; ++i) {
      EXPECT_THROW(ahead->next(), std::runtime_error);
      EXPECT_EQ(ahead->position(), (Position{0, 5}));
    }
    EXPECT_EQ(rest_of(ahead), (Numbers{5, 6, 7, 8, 9}));
  }
}

TEST(Prefetch, AnItemThatCannotBeMadeCanBeLeftOut) {
  const auto ahead = input::prefetch(input::map(Counting{4},
                                                [](std::int64_t item) {
                                                  if (item == 1) throw std::runtime_error("item 1");
                                                  return item;
                                                }),
                                     {.depth = 3, .workers = 2, .epochs = 1});
  ahead->next();
  EXPECT_THROW(ahead->next(), std::runtime_error);
  ahead->seek({0, 2});
  EXPECT_EQ(rest_of(ahead), (Numbers{2, 3}));
}

TEST(Prefetch, WorksAheadUpToItsDepthAndNoFurther) {
  auto made = std::make_shared<std::atomic<int>>(0);
  const auto ahead = input::prefetch(input::map(Counting{100},
                                                [made](std::int64_t item) {
                                                  ++*made;
                                                  return item;
                                                }),
                                     {.depth = 4, .workers = 2});
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(*made, 0) << "nobody has asked";
  ahead->next();
  for (int i = 0; i < 500 && *made < 5; ++i) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(*made, 5);
}

/// Two items that wait for each other are only made by two workers.
TEST(Prefetch, WorkersWorkAtTheSameTime) {
  auto both = std::make_shared<std::latch>(2);
  const auto ahead = input::prefetch(input::map(Counting{2},
                                                [both](std::int64_t item) {
                                                  both->arrive_and_wait();
                                                  return item;
                                                }),
                                     {.depth = 2, .workers = 2, .epochs = 1});
  EXPECT_EQ(rest_of(ahead), (Numbers{0, 1}));
}

TEST(Prefetch, EndsWithoutBeginningMore) {
  auto made = std::make_shared<std::atomic<int>>(0);
  {
    const auto ahead = input::prefetch(input::map(Counting{1000},
                                                  [made](std::int64_t item) {
                                                    ++*made;
                                                    std::this_thread::sleep_for(20ms);
                                                    return item;
                                                  }),
                                       {.depth = 500, .workers = 2});
    ahead->next();
  }
  EXPECT_LT(*made, 250);  // a few; all of the depth would take five seconds
}

TEST(Prefetch, WorkersComputeWithOneThread) {
  const int own = at::get_num_threads();
  at::set_num_threads(3);
  const auto ahead = input::prefetch(
      input::map(Counting{1}, [](std::int64_t) { return at::get_num_threads(); }), {.epochs = 1});
  EXPECT_EQ(rest_of(ahead), std::vector<int>{1});
  EXPECT_EQ(at::get_num_threads(), 3);
  at::set_num_threads(own);
}

TEST(Prefetch, ItemsThatCannotBeCopiedAreMovedThrough) {
  const auto ahead = input::prefetch(
      input::map(Counting{2},
                 [](std::int64_t item) { return std::make_unique<std::int64_t>(item); }),
      {.epochs = 1});
  EXPECT_EQ(**ahead->next(), 0);
  EXPECT_EQ(**ahead->next(), 1);
  EXPECT_FALSE(ahead->next().has_value());
}

TEST(Prefetch, NeedsADepthAndWorkers) {
  EXPECT_THROW(input::prefetch(Counting{1}, {.depth = 0}), ConfigError);
  EXPECT_THROW(input::prefetch(Counting{1}, {.workers = 0}), ConfigError);
  EXPECT_THROW(input::prefetch(input::stream(Counting{1}), 0), ConfigError);
}

}  // namespace prefetch_test
