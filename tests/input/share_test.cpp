// Batches that several processes share: each makes its own rows, and no others.

#include <gtest/gtest.h>
#include <lockstep/input.h>

#include <algorithm>

#include "input/numbers.h"
#include "input/shares.h"

namespace share_test {

/// Items that are padded to the longest of their batch.
struct Word {
  std::int64_t length = 0;
};

}  // namespace share_test

template <>
struct lockstep::input::Collate<share_test::Word> {
  torch::Tensor operator()(const std::vector<share_test::Word>& items) const {
    std::int64_t longest = 0;
    for (const auto& item : items) longest = std::max(longest, item.length);
    return torch::ones({static_cast<std::int64_t>(items.size()), longest});
  }
};

namespace share_test {

using namespace lockstep;
using tests::Counted;
using tests::Counting;
using tests::expect_shared;
using tests::Numbers;

/// A picture of an item's own, and its number.
torch::data::Example<> example(std::int64_t item, KeyedRandom& random) {
  const auto noise = static_cast<float>(random.uniform());
  return {torch::full({3, 2, 2}, noise) + item, torch::tensor(item)};
}

struct Examples {
  std::int64_t count = 0;
  std::int64_t size() const { return count; }
  torch::data::Example<> at(std::int64_t epoch, std::int64_t index) const {
    KeyedRandom random(1, epoch, index);
    return example(1000 * epoch + index, random);
  }
};

/// The same in one go; refuses to make nothing.
struct Gathering : Examples {
  torch::data::Example<> gather(std::int64_t epoch, std::span<const std::int64_t> indices) const {
    std::vector<torch::data::Example<>> items;
    for (const std::int64_t index : indices) items.push_back(at(epoch, index));
    return input::Collate<torch::data::Example<>>{}(items);  // stack throws for no tensors
  }
};

/// 17 items in batches of 7, the last of 3; two epochs, without threads and with some.
template <class S, class Decorate>
void expect_shared_however_streamed(const S& source, const Decorate& decorate) {
  const Counted<S> counted(source);
  const auto batches = decorate(counted);
  expect_shared([&] { return input::stream(batches, 2); }, counted);
  for (const int workers : {1, 3})
    expect_shared(
        [&] { return input::prefetch(batches, {.depth = 3, .workers = workers, .epochs = 2}); },
        counted);
}

TEST(Share, EachRowOfABatchBelongsToOneOfThem) {
  for (const auto& shares : tests::all_shares())
    for (const std::int64_t rows : {0, 1, 3, 4, 7, 128}) {
      std::int64_t next = 0;
      for (const Share& share : shares) {
        const Portion portion{share, rows};
        EXPECT_EQ(portion.range().begin, next);
        next = portion.range().end;
        for (int shard = share.first; shard < share.end; ++shard)
          EXPECT_EQ(portion.shard(shard).begin + portion.range().begin,
                    batch::shard_begin(rows, shard, share.shards));
      }
      EXPECT_EQ(next, rows);
    }
}

TEST(Share, ItsRowsAreBitForBitThoseOfTheWholeBatchAndMadeOnce) {
  const auto batched = [](const auto& source) { return input::batch(source, 7); };
  expect_shared_however_streamed(Counting{17}, batched);
  expect_shared_however_streamed(Examples{17}, batched);
  expect_shared_however_streamed(Gathering{{17}}, batched);
  expect_shared_however_streamed(Examples{17}, [](const auto& source) {
    return input::batch(
        input::map(source, [](const torch::data::Example<>& item) { return item.data; }), 7);
  });
}

TEST(Share, ShufflingAndAugmentationDoNotChangeWithIt) {
  expect_shared_however_streamed(Counting{17}, [](const auto& source) {
    return input::batch(input::map(input::shuffle(source, 5), example, 3), 7, input::Last::drop);
  });
  expect_shared_however_streamed(Gathering{{17}}, [](const auto& source) {
    return input::shuffle(input::batch(input::shuffle(source, 5), 7), 6);  // batches as well
  });
}

TEST(Share, AFunctionOfBatchesIsGivenSomeRowsOnlyIfItSaysSo) {
  const auto twice = [](const torch::data::Example<>& batch) {
    EXPECT_GT(batch.data.size(0), 0) << "called for nothing";
    return std::pair(batch.data * 2, batch.target);
  };
  const auto by_rows = [&](const auto& source) {
    return input::map(input::batch(source, 7), input::by_rows(twice));
  };
  expect_shared_however_streamed(Examples{17}, by_rows);
  const Counted<Examples> counted(Examples{17});
  expect_shared(
      [&] {
        return input::map(input::prefetch(input::batch(counted, 7), {.epochs = 2}),
                          input::by_rows(twice));
      },
      counted);

  const auto whole = input::stream(input::map(input::batch(Examples{17}, 7), twice));
  EXPECT_FALSE(whole->share({4, 0, 2}));
  EXPECT_EQ(whole->next()->first.size(0), 7);
  EXPECT_TRUE(whole->portion().whole());
  const auto of_stream = input::map(input::stream(input::batch(Examples{17}, 7)), twice);
  EXPECT_FALSE(of_stream->share({4, 0, 2}));
  EXPECT_EQ(of_stream->next()->first.size(0), 7);
  EXPECT_TRUE(of_stream->portion().whole());
}

TEST(Share, WhatDependsOnTheWholeBatchStaysWhole) {
  const auto words = input::map(Counting{6}, [](std::int64_t item) { return Word{item + 1}; });
  const auto padded = input::stream(input::batch(words, 4));
  EXPECT_FALSE(padded->share({4, 0, 1}));
  EXPECT_EQ(padded->next()->sizes(), torch::IntArrayRef({4, 4}));
  EXPECT_TRUE(padded->portion().whole());
  EXPECT_TRUE(padded->share({4, 0, 4}));

  const auto in_order = [] { return std::make_unique<tests::CountingStream>(6, 2); };
  const auto batched = input::batch(std::unique_ptr<Stream<std::int64_t>>(in_order()), 4);
  EXPECT_FALSE(batched->share({4, 0, 1}));
  EXPECT_EQ(batched->next(), (Numbers{0, 1, 2, 3}));
  const auto ahead =
      input::prefetch(input::batch(std::unique_ptr<Stream<std::int64_t>>(in_order()), 4));
  EXPECT_EQ(ahead->next(), (Numbers{0, 1, 2, 3}));
  EXPECT_FALSE(ahead->share({4, 0, 1}));
  EXPECT_EQ(ahead->next(), (Numbers{4, 5}));  // nothing is lost
  EXPECT_TRUE(ahead->portion().whole());
  const auto shuffled = input::shuffle(input::stream(input::batch(Counting{6}, 4)), 2, 1);
  EXPECT_FALSE(shuffled->share({4, 0, 1}));
}

TEST(Share, AStreamReadAheadPassesItOn) {
  const Counted<Examples> counted(Examples{17});
  const auto make = [&] {
    return input::prefetch(input::stream(input::batch(counted, 7), 2), /*depth=*/3);
  };
  expect_shared(make, counted);
}

/// From every position, as if it had been so from the beginning.
TEST(Share, IsKeptWhenTheStreamGoesElsewhere) {
  const auto make = [](int workers) {
    return input::prefetch(input::batch(input::shuffle(Counting{17}, 2), 7),
                           {.depth = 3, .workers = workers, .epochs = 3});
  };
  const Share share{5, 1, 3};
  for (const int workers : {1, 3}) {
    std::vector<Numbers> expected;
    const auto straight = make(workers);
    ASSERT_TRUE(straight->share(share));
    for (int i = 0; i < 9; ++i) expected.push_back(straight->next().value());
    const auto moved = make(workers);
    ASSERT_TRUE(moved->share(share));
    for (const int at : {8, 2, 5, 0, 4}) {
      moved->seek({at / 3, at % 3});
      EXPECT_EQ(moved->next(), expected[static_cast<std::size_t>(at)]);
      EXPECT_EQ(moved->portion(), (Portion{share, at % 3 == 2 ? 3 : 7}));
    }
  }
}

TEST(Share, ChangesFromTheNextItemOnAndThePositionStays) {
  const auto batches = input::batch(input::shuffle(Counting{17}, 2), 7);
  const std::vector<Share> turns = {{4, 0, 2}, {4, 2, 4}, {4, 0, 4},
                                    {3, 1, 2}, {4, 4, 4}, {7, 6, 7}};
  for (const int workers : {1, 3}) {
    const auto whole = input::stream(batches);
    const auto stream = input::prefetch(batches, {.depth = 4, .workers = workers});
    for (int round = 0; round < 30; ++round) {
      const Share& share = turns[static_cast<std::size_t>(round) % turns.size()];
      ASSERT_TRUE(stream->share(share));
      EXPECT_EQ(stream->position(), whole->position());
      const Numbers all = whole->next().value(), made = stream->next().value();
      tests::expect_portion(all, made, stream->portion(), share);
    }
  }
}

/// An item that cannot be made is an error only where it is needed.
TEST(Share, AnErrorIsThatOfTheProcessWhoseRowItIs) {
  const auto source = input::map(Counting{8}, [](std::int64_t item) {
    if (item == 5) throw std::runtime_error("item 5");
    return item;
  });
  const auto first = input::prefetch(input::batch(source, 4), {.workers = 2, .epochs = 1});
  ASSERT_TRUE(first->share({2, 1, 2}));
  EXPECT_EQ(first->next(), (Numbers{2, 3}));
  EXPECT_EQ(first->next(), (Numbers{6, 7}));
  ASSERT_TRUE(first->share({2, 0, 1}));
  first->seek({0, 1});
  EXPECT_THROW(first->next(), std::runtime_error);
  EXPECT_EQ(first->position(), (Position{0, 1}));
  ASSERT_TRUE(first->share({2, 1, 2}));  // another process has it now
  EXPECT_EQ(first->next(), (Numbers{6, 7}));
}

TEST(Share, RefusesShardsThatThereAreNot) {
  const auto stream = input::prefetch(input::batch(Counting{8}, 4));
  for (const Share& wrong : {Share{4, -1, 2}, Share{4, 2, 5}, Share{4, 3, 2}, Share{0, 0, 0}})
    EXPECT_THROW(stream->share(wrong), std::logic_error);
  EXPECT_THROW((Portion{{4, 1, 2}, 8}.shard(2)), std::logic_error);
  EXPECT_EQ(stream->next(), (Numbers{0, 1, 2, 3}));
}

/// What a dataset of LibTorch draws belongs to the batch, so it is made whole.
struct Drawing : torch::data::datasets::Dataset<Drawing> {
  torch::data::Example<> get(std::size_t) override { return {torch::rand({2}), torch::tensor(0)}; }
  torch::optional<std::size_t> size() const override { return 10; }
};

TEST(Share, ADatasetOfLibTorchStaysWhole) {
  const auto make = [](bool shuffle) {
    return input::from(Drawing().map(torch::data::transforms::Stack<>()),
                       {.rows = 4, .shuffle = shuffle});
  };
  for (const bool shuffle : {false, true}) {
    const auto whole = make(shuffle), shared = make(shuffle);
    EXPECT_FALSE(shared->share({4, 1, 2}));
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(torch::equal(whole->next()->data, shared->next()->data));
      EXPECT_TRUE(shared->portion().whole());
    }
  }
}

}  // namespace share_test
