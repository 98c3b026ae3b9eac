#include <gtest/gtest.h>
#include <lockstep/batch.h>
#include <lockstep/error.h>

#include <string>

namespace batch_test {

using namespace lockstep;
using torch::Tensor;

Tensor rows_of(int n) { return torch::arange(n).view({n, 1}); }

TEST(Split, CoversEveryRowOnceInOrder) {
  for (const int n : {0, 1, 2, 7, 8, 9, 64})
    for (const int shards : {1, 2, 3, 5, 8}) {
      const auto parts = batch::split(rows_of(n), shards);
      ASSERT_EQ(parts.size(), static_cast<std::size_t>(shards));
      EXPECT_TRUE(torch::equal(torch::cat(parts), rows_of(n))) << n << " rows, " << shards;
      for (const Tensor& part : parts) {
        EXPECT_LE(part.size(0), n / shards + 1);
        EXPECT_GE(part.size(0), n / shards);
      }
    }
}

struct Sentences {
  Tensor words, lengths;
  int bucket = 0;
  auto tensors() { return std::tie(words, lengths); }
};

TEST(Split, CutsTheTensorsThatATypeOfOnesOwnOffers) {
  const Sentences batch{rows_of(7), torch::arange(7), 3};
  EXPECT_EQ(batch::rows(batch), 7);
  const auto parts = batch::split(batch, 3);
  EXPECT_TRUE(torch::equal(parts[1].words, rows_of(7).narrow(0, 2, 2)));
  EXPECT_TRUE(torch::equal(parts[2].lengths, torch::arange(7).narrow(0, 4, 3)));
  EXPECT_EQ(parts[2].bucket, 3);
  EXPECT_EQ(batch.words.size(0), 7);
}

TEST(Split, DoesNotCopy) {
  const Tensor batch = rows_of(8);
  EXPECT_TRUE(batch::split(batch, 2)[1].is_alias_of(batch));
}

TEST(Split, KnowsExamplesPairsTuplesArraysAndVectors) {
  const Tensor data = rows_of(6), target = torch::arange(6);
  const torch::data::Example<> example(data, target);
  EXPECT_TRUE(torch::equal(batch::part(example, 1, 3).data, rows_of(6).narrow(0, 2, 2)));
  EXPECT_TRUE(torch::equal(batch::part(example, 1, 3).target, target.narrow(0, 2, 2)));
  EXPECT_EQ(batch::part(torch::data::TensorExample(data), 2, 3).data[0].item<int>(), 4);
  EXPECT_EQ(batch::part(std::pair(data, target), 2, 3).second[0].item<int>(), 4);
  EXPECT_EQ(std::get<2>(batch::part(std::tuple(data, target, target), 2, 3))[0].item<int>(), 4);
  EXPECT_EQ(batch::part(std::array{data, target}, 2, 3)[1][0].item<int>(), 4);
  EXPECT_EQ(batch::part(std::vector{data, target}, 2, 3)[1][0].item<int>(), 4);
  EXPECT_EQ(
      std::get<0>(batch::part(std::tuple(std::pair(data, target), target), 2, 3)).second.numel(),
      2);
  for (const auto count :
       {batch::rows(example), batch::rows(std::pair(data, target)),
        batch::rows(std::tuple(data, target)), batch::rows(std::array{data, target}),
        batch::rows(std::vector{data, target}), batch::rows(data)})
    EXPECT_EQ(count, 6);
}

TEST(Split, CutsAListOfExamplesByTheList) {
  std::vector<torch::data::Example<>> list;
  for (int i = 0; i < 5; ++i) list.emplace_back(torch::zeros({3, 4}), torch::tensor(i));
  EXPECT_EQ(batch::rows(list), 5);
  const auto last = batch::part(list, 1, 2);
  ASSERT_EQ(last.size(), 3U);
  EXPECT_EQ(last.front().target.item<int>(), 2);
}

TEST(Split, AnUndefinedTensorIsUndefinedInEveryShard) {
  const Sentences batch{Tensor(), torch::arange(7), 3};
  EXPECT_EQ(batch::rows(batch), 7);
  for (const Sentences& part : batch::split(batch, 3)) EXPECT_FALSE(part.words.defined());
  EXPECT_EQ(batch::part(batch, 2, 3).lengths.size(0), 3);
  EXPECT_FALSE(batch::part(Tensor(), 0, 2).defined());
  EXPECT_EQ(batch::rows(Tensor()), 0);
  EXPECT_EQ(batch::rows(std::pair(std::vector{Tensor(), rows_of(4)}, rows_of(5))), 4);
}

TEST(Split, ATensorWithoutDimensionsIsRefused) {
  EXPECT_THROW(batch::part(torch::tensor(1), 0, 2), ConfigError);
  EXPECT_THROW(batch::rows(std::pair(torch::tensor(1), rows_of(2))), ConfigError);
}

struct Ragged {
  std::vector<int> lengths;
  Ragged shard(int i, int n) const {
    const auto size = static_cast<std::int64_t>(lengths.size());
    return {{lengths.begin() + batch::shard_begin(size, i, n),
             lengths.begin() + batch::shard_begin(size, i + 1, n)}};
  }
};

struct RaggedWithRows : Ragged {
  RaggedWithRows shard(int i, int n) const { return {Ragged::shard(i, n)}; }
  std::int64_t rows() const { return static_cast<std::int64_t>(lengths.size()); }
};

TEST(Split, AsksABatchTypeOfOnesOwn) {
  const RaggedWithRows batch{{{5, 6, 7}}};
  EXPECT_EQ(batch::part(batch, 1, 3).lengths, std::vector<int>{6});
  EXPECT_EQ(batch::rows(batch), 3);
  EXPECT_EQ(batch::rows(Ragged{{1, 2}}), batch::kUnknownRows);
  EXPECT_EQ(batch::part(std::pair(batch, rows_of(3)), 2, 3).first.lengths, std::vector<int>{7});
}

struct Both : Sentences {
  Both shard(int, int) const { return *this; }
};

struct NotTied {
  Tensor words;
  auto tensors() const { return std::tie(words); }
};

TEST(Split, KnowsWhatItCanCut) {
  static_assert(Shardable<Tensor> && Shardable<Ragged> && Shardable<Sentences> && Shardable<Both>);
  static_assert(Shardable<std::vector<std::tuple<Sentences, std::array<Tensor, 2>>>>);
  static_assert(Shardable<std::pair<torch::data::TensorExample, torch::data::Example<>>>);
  static_assert(!Shardable<int> && !Shardable<std::vector<int>> && !Shardable<NotTied>);
  static_assert(!Shardable<std::pair<Tensor, std::string>> && !Shardable<std::tuple<>>);
  EXPECT_EQ(batch::part(Both{}, 0, 2).bucket, 0);
}

}  // namespace batch_test
