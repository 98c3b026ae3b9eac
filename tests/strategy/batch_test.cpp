#include <gtest/gtest.h>
#include <lockstep/batch.h>
#include <lockstep/error.h>

#include <functional>
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

TEST(Split, NumbersTextsAndTensorsWithoutDimensionsAreTheSameInEveryShard) {
  enum class Mode { train, test };
  const std::tuple batch(rows_of(6), 0.5, true, Mode::test, std::string("name"), torch::tensor(3));
  EXPECT_EQ(batch::rows(batch), 6);
  for (const auto& part : batch::split(batch, 3)) {
    EXPECT_EQ(std::get<0>(part).size(0), 2);
    EXPECT_EQ(std::get<1>(part), 0.5);
    EXPECT_TRUE(std::get<2>(part));
    EXPECT_EQ(std::get<3>(part), Mode::test);
    EXPECT_EQ(std::get<4>(part), "name");
    EXPECT_EQ(std::get<5>(part).item<int>(), 3);
  }
  EXPECT_EQ(batch::part(std::pair(torch::tensor(1), rows_of(4)), 1, 2).second.size(0), 2);
  EXPECT_EQ(batch::rows(std::pair(torch::tensor(1), rows_of(4))), 4);
}

TEST(Split, WholeIsTheSameInEveryShard) {
  const std::vector<int> lengths{3, 4};
  const std::tuple batch(rows_of(6), whole(torch::ones({2, 2})), whole(lengths),
                         whole(std::pair(Sentences{rows_of(5), Tensor()}, list(lengths))));
  EXPECT_EQ(batch::rows(batch), 6);
  for (const auto& part : batch::split(batch, 3)) {
    EXPECT_EQ(std::get<0>(part).size(0), 2);
    EXPECT_EQ(std::get<1>(part).value.size(0), 2);
    EXPECT_EQ(std::get<2>(part).value, lengths);
    EXPECT_EQ(std::get<3>(part).value.first.words.size(0), 5);
    EXPECT_EQ(std::get<3>(part).value.second.items, lengths);
  }
}

TEST(Split, AlongCutsAnotherDimension) {
  const Tensor state = torch::arange(2 * 7 * 3).view({2, 7, 3});
  for (const int dim : {1, -2}) {
    const auto batch = std::pair(along(dim, std::tuple(state, 2 * state)), rows_of(7));
    EXPECT_EQ(batch::rows(batch), 7);
    std::vector<Tensor> states, doubled;
    for (const auto& part : batch::split(batch, 3)) {
      EXPECT_EQ(std::get<0>(part.first.value).size(1), part.second.size(0));
      states.push_back(std::get<0>(part.first.value));
      doubled.push_back(std::get<1>(part.first.value));
    }
    EXPECT_TRUE(torch::equal(torch::cat(states, 1), state));
    EXPECT_TRUE(torch::equal(torch::cat(doubled, 1), 2 * state));
  }
  EXPECT_EQ(batch::rows(along(1, std::vector{Tensor(), state})), 7);
  EXPECT_FALSE(batch::part(along(1, Tensor()), 0, 2).value.defined());
}

TEST(Split, AListIsCutByItsItems) {
  std::vector<Tensor> pictures;
  for (int i = 0; i < 5; ++i) pictures.push_back(torch::full({3, i + 1, 4}, i));
  const std::vector<std::string> names{"a", "b", "c", "d", "e"};
  struct Box {
    int left, right;
  };
  const std::tuple batch(list(pictures), list(names), list(std::vector<Box>(5, {1, 2})),
                         torch::arange(5), list(std::vector<std::vector<Tensor>>(5, pictures)));
  EXPECT_EQ(batch::rows(batch), 5);
  const auto last = batch::part(batch, 1, 2);
  ASSERT_EQ(std::get<0>(last).items.size(), 3U);
  EXPECT_EQ(std::get<0>(last).items[0].size(1), 3);
  EXPECT_EQ(std::get<1>(last).items.front(), "c");
  EXPECT_EQ(std::get<2>(last).items.size(), 3U);
  EXPECT_EQ(std::get<3>(last)[0].item<int>(), 2);
  EXPECT_EQ(std::get<4>(last).items[2].size(), 5U);
  EXPECT_EQ(batch::rows(batch::part(list(pictures), 2, 3)), 2);
  EXPECT_EQ(batch::rows(list(std::vector<Tensor>{})), 0);
  std::vector<torch::data::Example<Tensor, int>> examples;
  for (int i = 0; i < 5; ++i) examples.emplace_back(rows_of(i), i);
  EXPECT_EQ(batch::part(examples, 1, 2)[0].target, 2);
}

TEST(Split, KnowsMapsAndOptionals) {
  const std::map<std::string, Tensor> named{{"a", rows_of(4)}, {"b", torch::arange(4)}};
  EXPECT_EQ(batch::part(named, 1, 2).at("b")[0].item<int>(), 2);
  EXPECT_EQ(batch::part(std::unordered_map<int, Tensor>{{1, rows_of(4)}}, 1, 2).at(1).size(0), 2);
  EXPECT_EQ(batch::rows(std::pair(std::map<std::string, double>{{"x", 1.0}}, rows_of(4))), 4);
  torch::OrderedDict<std::string, Tensor> ordered;
  ordered.insert("x", rows_of(4));
  EXPECT_EQ(batch::part(ordered, 1, 2)["x"].size(0), 2);
  const auto optional = std::tuple(std::optional(rows_of(4)), std::optional<Tensor>(), rows_of(4));
  EXPECT_EQ(std::get<0>(batch::part(optional, 0, 2))->size(0), 2);
  EXPECT_FALSE(std::get<1>(batch::part(optional, 0, 2)).has_value());
}

/// What is said of a batch whose parts differ in rows.
template <class Batch>
std::string refusal_of(const Batch& batch) {
  try {
    lockstep::detail::require_same_rows(batch);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void expect_says(const std::string& message, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << word << " is not in: " << message;
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
  EXPECT_EQ(batch::rows(std::pair(Ragged{{1, 2}}, rows_of(3))), 3);
}

TEST(SameRows, NamesThePartsThatDiffer) {
  const Tensor five = rows_of(5), four = rows_of(4);
  using Named = std::map<std::string, Tensor>;
  expect_says(refusal_of(torch::data::Example<>(five, four)),
              {"'data' has 5", "'target' has 4, its sizes are (4, 1)", "whole(x)"});
  expect_says(refusal_of(std::pair(five, std::tuple(five, four))),
              {"'.first' has 5", "'.second.get<1>' has 4"});
  expect_says(refusal_of(Sentences{five, four}), {"'tensors()[0]'", "'tensors()[1]' has 4"});
  expect_says(refusal_of(std::vector<Named>{{{"mask", five}}, {{"mask", four}}}),
              {"'[0][\"mask\"]'", "'[1][\"mask\"]'"});
  expect_says(refusal_of(std::pair(std::map<int, Tensor>{{7, five}}, four)), {"'.first[7]'"});
  expect_says(refusal_of(std::tuple(five, list(std::vector{four}), whole(four))),
              {"'get<1>' has 1"});
  expect_says(refusal_of(std::pair(Ragged{{1}}, std::pair(RaggedWithRows{{{1, 2}}}, five))),
              {"'.second.first' has 2", "'.second.second' has 5"});
  EXPECT_EQ(refusal_of(std::tuple(five, Ragged{{1}}, torch::tensor(1), Tensor(), 3)), "");
}

TEST(SameRows, SaysWhatToDo) {
  const Tensor rows = rows_of(5), state = torch::zeros({2, 5, 3});
  expect_says(refusal_of(std::pair(rows, state)),
              {"if the rows of '.second' are its dimension 1, pass along(1, x)"});
  expect_says(refusal_of(std::pair(state, rows)),
              {"if the rows of '.first' are its dimension 1, pass along(1, x)"});
  EXPECT_EQ(refusal_of(std::pair(rows, along(1, std::pair(state, state)))), "");
  expect_says(refusal_of(std::vector{rows_of(3), rows_of(4)}),
              {"'[1]' has 4", "if each item of the vector is one row, pass list(v)"});
  expect_says(refusal_of(std::pair(rows, along(2, rows))), {"along(2, x)", "only 2 dimensions"});
  expect_says(refusal_of(along(0, torch::tensor(1))), {"the batch itself has only 0 dimensions"});
}

TEST(SameRows, ABatchInWhichNothingHasRowsIsRefused) {
  for (const std::string& message :
       {refusal_of(Tensor()), refusal_of(torch::tensor(1)), refusal_of(std::vector<Tensor>{}),
        refusal_of(std::pair(whole(rows_of(3)), std::optional<Tensor>()))})
    expect_says(message, {"nothing in the batch has rows"});
  EXPECT_EQ(refusal_of(list(std::vector<int>{})), "");
}

struct Both : Sentences {
  Both shard(int, int) const { return *this; }
};

struct NotTied {
  Tensor words;
  auto tensors() const { return std::tie(words); }
};

struct NoRows {
  float left, right;
};

TEST(Split, KnowsWhatItCanCut) {
  static_assert(Shardable<Tensor> && Shardable<Ragged> && Shardable<Sentences> && Shardable<Both>);
  static_assert(Shardable<std::vector<std::tuple<Sentences, std::array<Tensor, 2>>>>);
  static_assert(Shardable<std::pair<torch::data::TensorExample, torch::data::Example<>>>);
  static_assert(!Shardable<int> && !Shardable<std::vector<int>> && !Shardable<NotTied>);
  static_assert(!Shardable<std::tuple<>> && !Shardable<Whole<Tensor>>);
  static_assert(Shardable<std::pair<Tensor, std::string>> && Shardable<List<int>>);
  // Whether these are rows is not clear:
  static_assert(!Shardable<std::pair<Tensor, std::vector<int>>>);
  static_assert(!Shardable<std::vector<std::pair<Tensor, int>>>);
  static_assert(Shardable<std::pair<Tensor, Whole<std::vector<int>>>>);
  static_assert(Shardable<List<std::pair<Tensor, int>>> && !Shardable<Along<List<Tensor>>>);
  static_assert(!Shardable<List<std::function<void()>>> && !Shardable<std::pair<Tensor, NoRows>>);
  static_assert(Shardable<List<NoRows>>);
  EXPECT_EQ(batch::part(Both{}, 0, 2).bucket, 0);
}

}  // namespace batch_test
