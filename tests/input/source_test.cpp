#include <gtest/gtest.h>
#include <lockstep/input.h>

#include <algorithm>

#include "numbers.h"

namespace source_test {

using namespace lockstep;
using tests::Counting;
using tests::Numbers;
using tests::rest_of;

template <class S>
Numbers epoch_of(const S& source, std::int64_t epoch) {
  Numbers items;
  for (std::int64_t i = 0; i < source.size(); ++i) items.push_back(source.at(epoch, i));
  return items;
}

Numbers sorted(Numbers items) {
  std::sort(items.begin(), items.end());
  return items;
}

/// Counting that counts how it is asked.
struct Gathering : Counting {
  Numbers gather(std::int64_t epoch, std::span<const std::int64_t> indices) const {
    Numbers batch{-1};
    for (const std::int64_t index : indices) batch.push_back(at(epoch, index));
    return batch;
  }
};

std::int64_t with_random(std::int64_t item, KeyedRandom& random) {
  return item * 1'000'000 + random.below(1'000'000);
}

TEST(Map, AppliesAFunctionToEachItem) {
  const auto mapped = input::map(Counting{3}, [](std::int64_t item) { return -item; });
  EXPECT_EQ(epoch_of(mapped, 2), (Numbers{-2000, -2001, -2002}));
}

TEST(Map, GivesEachItemAndEpochItsOwnRandomStream) {
  const auto mapped = input::map(Counting{50}, with_random, 3);
  const Numbers first = epoch_of(mapped, 0), second = epoch_of(mapped, 1);
  EXPECT_EQ(epoch_of(mapped, 0), first);
  const Numbers other_seed = epoch_of(input::map(Counting{50}, with_random, 4), 0);
  int same_epoch = 0, same_seed = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    same_epoch += first[i] % 1'000'000 == second[i] % 1'000'000 ? 1 : 0;
    same_seed += first[i] == other_seed[i] ? 1 : 0;
  }
  EXPECT_LE(same_epoch, 1);
  EXPECT_LE(same_seed, 1);
}

TEST(Map, IsTheSameBeforeAndAfterShuffling) {
  const auto before = input::shuffle(input::map(Counting{30}, with_random, 3), 9);
  const auto after = input::map(input::shuffle(Counting{30}, 9), with_random, 3);
  const auto twice = input::map(input::shuffle(input::shuffle(Counting{30}, 1), 2), with_random, 3);
  const auto once = input::shuffle(input::shuffle(input::map(Counting{30}, with_random, 3), 1), 2);
  for (const std::int64_t epoch : {0, 1, 5}) {
    EXPECT_EQ(epoch_of(before, epoch), epoch_of(after, epoch));
    EXPECT_EQ(epoch_of(twice, epoch), epoch_of(once, epoch));
  }
}

TEST(ShuffledSource, HasTheItemsOfItsEpochInAnOrderOfItsOwn) {
  const auto shuffled = input::shuffle(Counting{100}, 1);
  const Numbers first = epoch_of(shuffled, 0), second = epoch_of(shuffled, 1);
  EXPECT_EQ(sorted(first), epoch_of(Counting{100}, 0));
  EXPECT_EQ(sorted(second), epoch_of(Counting{100}, 1));
  EXPECT_NE(first, sorted(first));
  EXPECT_NE(second[0] - 1000, first[0]);
  EXPECT_NE(epoch_of(input::shuffle(Counting{100}, 2), 0), first);
}

/// The rows of each batch of `items` items.
template <class... Args>
Numbers rows_of(std::int64_t items, Args... how) {
  const auto batches = input::batch(Counting{items}, how...);
  Numbers rows, all;
  for (std::int64_t i = 0; i < batches.size(); ++i) {
    const Numbers batch = batches.at(0, i);
    rows.push_back(std::ssize(batch));
    EXPECT_EQ(batches.rows(0, i), rows.back());
    all.insert(all.end(), batch.begin(), batch.end());
  }
  EXPECT_EQ(all, epoch_of(Counting{items}, 0));
  return rows;
}

TEST(BatchedSource, MergesALastBatchWithTooFewRowsIntoTheOneBefore) {
  using enum input::Last;
  EXPECT_EQ(rows_of(9, 4, merge, 2), (Numbers{4, 5}));
  EXPECT_EQ(rows_of(10, 4, merge, 2), (Numbers{4, 4, 2}));
  EXPECT_EQ(rows_of(8, 4, merge, 2), (Numbers{4, 4}));
  EXPECT_EQ(rows_of(4, 4, merge, 9), (Numbers{4}));
  EXPECT_EQ(rows_of(3, 4, merge, 9), (Numbers{3})) << "there is none before it";
  EXPECT_EQ(rows_of(0, 4, merge, 2), (Numbers{}));
}

TEST(BatchedSource, SpreadsTheRowsOfAnEpochEvenly) {
  using enum input::Last;
  EXPECT_EQ(rows_of(9, 4, spread), (Numbers{3, 3, 3}));
  EXPECT_EQ(rows_of(10, 4, spread), (Numbers{3, 3, 4}));
  EXPECT_EQ(rows_of(8, 4, spread), (Numbers{4, 4}));
  EXPECT_EQ(rows_of(3, 4, spread), (Numbers{3}));
  EXPECT_EQ(rows_of(0, 4, spread), (Numbers{}));
}

TEST(BatchedSource, EndsEachEpochWithASmallerBatchUnlessToldToDropIt) {
  const auto kept = input::batch(Counting{7}, 3);
  ASSERT_EQ(kept.size(), 3);
  EXPECT_EQ(kept.at(1, 0), (Numbers{1000, 1001, 1002}));
  EXPECT_EQ(kept.at(1, 2), (Numbers{1006}));
  const auto dropped = input::batch(Counting{7}, 3, input::Last::drop);
  ASSERT_EQ(dropped.size(), 2);
  EXPECT_EQ(dropped.at(0, 1), (Numbers{3, 4, 5}));
  EXPECT_EQ(input::batch(Counting{6}, 3).size(), 2);
  EXPECT_EQ(input::batch(Counting{2}, 3).at(0, 0), (Numbers{0, 1}));
  EXPECT_EQ(input::batch(Counting{2}, 3, input::Last::drop).size(), 0);
  EXPECT_EQ(input::batch(Counting{0}, 3).size(), 0);
  EXPECT_THROW(input::batch(Counting{2}, 0), ConfigError);
}

TEST(BatchedSource, GathersWhereTheSourceCanAlsoThroughShuffle) {
  EXPECT_EQ(input::batch(Gathering{{7}}, 3).at(1, 2), (Numbers{-1, 1006}));
  const auto shuffled = input::shuffle(Counting{7}, 5);
  EXPECT_EQ(input::batch(input::shuffle(Gathering{{7}}, 5), 3).at(1, 0),
            (Numbers{-1, shuffled.at(1, 0), shuffled.at(1, 1), shuffled.at(1, 2)}));
}

TEST(BatchedSource, StacksExamplesAndTensors) {
  const auto examples = input::map(Counting{5}, [](std::int64_t item) {
    return torch::data::Example<>{torch::full({2, 3}, item, torch::kFloat32), torch::tensor(item)};
  });
  const torch::data::Example<> batch = input::batch(examples, 2).at(0, 1);
  EXPECT_EQ(batch.data.sizes(), torch::IntArrayRef({2, 2, 3}));
  EXPECT_TRUE(torch::equal(batch.target, torch::tensor({2, 3}, torch::kInt64)));
  EXPECT_EQ(batch.data[1][1][2].item<float>(), 3.F);
  const auto tensors =
      input::map(Counting{5}, [](std::int64_t item) { return torch::tensor(item); });
  EXPECT_TRUE(torch::equal(input::batch(tensors, 3).at(1, 1), torch::tensor({1003, 1004})));
}

TEST(SourceStream, GoesThroughEpochAfterEpoch) {
  const auto stream = input::stream(Counting{2}, 3);
  EXPECT_EQ(rest_of(stream), (Numbers{0, 1, 1000, 1001, 2000, 2001}));
  EXPECT_EQ(stream->position(), (Position{3, 0}));
  const auto endless = input::stream(Counting{2});
  for (int i = 0; i < 1000; ++i) endless->next();
  EXPECT_EQ(endless->position(), (Position{500, 0}));
}

TEST(SourceStream, IsOverAtOnceWithoutItemsOrEpochs) {
  EXPECT_EQ(rest_of(input::stream(Counting{0})), Numbers{});
  EXPECT_EQ(rest_of(input::stream(Counting{5}, 0)), Numbers{});
  EXPECT_EQ(rest_of(input::prefetch(Counting{0})), Numbers{});
  EXPECT_EQ(rest_of(input::prefetch(Counting{5}, {.epochs = 0})), Numbers{});
  EXPECT_THROW(input::stream(Counting{5}, -1), ConfigError);
}

TEST(SourceStream, RefusesWhatIsNoPosition) {
  const auto stream = input::stream(Counting{4}, 3);
  stream->next();
  for (const Position& wrong : std::vector<Position>{
           {}, {0}, {0, 4}, {0, -1}, {-1, 0}, {3, 1}, {4, 0}, {0, 0, 0}, {input::kEndless, 3}})
    tests::expect_refused(*stream, wrong);
  stream->seek({3, 0});
  EXPECT_EQ(stream->next(), std::nullopt);
}

TEST(SourceStream, StaysWhereItIsWhenAnItemCannotBeMade) {
  auto failures = std::make_shared<int>(2);
  const auto stream = input::stream(input::map(Counting{3},
                                               [failures](std::int64_t item) {
                                                 if (item == 1 && (*failures)-- > 0)
                                                   throw std::runtime_error("not yet");
                                                 return item;
                                               }),
                                    1);
  stream->next();
  EXPECT_THROW(stream->next(), std::runtime_error);
  EXPECT_EQ(stream->position(), (Position{0, 1}));
  EXPECT_THROW(stream->next(), std::runtime_error);
  EXPECT_EQ(rest_of(stream), (Numbers{1, 2}));
}

TEST(SourceStream, IsRestoredAtEveryPoint) {
  tests::expect_restorable([] { return input::stream(Counting{5}, 3); });
  tests::expect_restorable([] { return input::stream(input::shuffle(Counting{5}, 2), 3); });
  tests::expect_restorable([] {
    return input::stream(
        input::batch(input::map(input::shuffle(Counting{7}, 2), with_random, 1), 3), 3);
  });
}

}  // namespace source_test
