#include <gtest/gtest.h>
#include <lockstep/input.h>

#include "numbers.h"

namespace dataset_test {

using namespace lockstep;
using torch::Tensor;
namespace data = torch::data;

/// Item i is (i, 10 i); with noise, plus what torch::rand draws.
struct Squares : data::datasets::Dataset<Squares> {
  explicit Squares(std::size_t rows, bool draws = false) : count(rows), noise(draws) {}
  data::Example<> get(std::size_t index) override {
    const auto number = static_cast<float>(index);
    return {torch::full({2}, number) + (noise ? torch::rand({2}) : torch::zeros({2})),
            torch::tensor(10 * number)};
  }
  torch::optional<std::size_t> size() const override { return count; }
  std::size_t count;
  bool noise;
};

auto stacked(std::size_t rows, bool noise = false) {
  return Squares(rows, noise).map(data::transforms::Stack<>());
}

/// The targets of a stream of batches, batch by batch, and the data.
template <class Stream>
std::vector<std::vector<float>> targets_of(const Stream& stream,
                                           std::vector<Tensor>* seen = nullptr) {
  std::vector<std::vector<float>> result;
  for (const auto& batch : tests::rest_of(stream)) {
    const Tensor target = batch.target.contiguous();
    result.emplace_back(target.template data_ptr<float>(),
                        target.template data_ptr<float>() + target.numel());
    if (seen) seen->push_back(batch.data);
  }
  return result;
}

using Batches = std::vector<std::vector<float>>;

TEST(From, GivesTheBatchesOfADatasetInOrder) {
  const input::From how{.rows = 3, .shuffle = false, .prefetch = {.epochs = 2}};
  const Batches epoch{{0, 10, 20}, {30, 40, 50}, {60}};
  Batches expected = epoch;
  expected.insert(expected.end(), epoch.begin(), epoch.end());
  EXPECT_EQ(targets_of(input::from(stacked(7), how)), expected);
  EXPECT_EQ(
      targets_of(input::from(
          stacked(7),
          {.rows = 3, .shuffle = false, .last = input::Last::drop, .prefetch = {.epochs = 1}})),
      (Batches{{0, 10, 20}, {30, 40, 50}}));
}

TEST(From, ShufflesByItsSeedAndTheEpoch) {
  const auto order = [](std::uint64_t seed) {
    std::vector<float> all;
    for (const auto& batch :
         targets_of(input::from(stacked(20), {.rows = 6, .seed = seed, .prefetch = {.epochs = 2}})))
      all.insert(all.end(), batch.begin(), batch.end());
    return all;
  };
  const std::vector<float> once = order(1);
  EXPECT_EQ(order(1), once);
  EXPECT_NE(order(2), once);
  std::vector<float> first(once.begin(), once.begin() + 20), second(once.begin() + 20, once.end());
  EXPECT_NE(first, second);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, second);
}

/// What makes batches equal, for expect_restorable.
struct Comparable {
  data::Example<> batch;
  bool operator==(const Comparable& other) const {
    return torch::equal(batch.data, other.batch.data) &&
           torch::equal(batch.target, other.batch.target);
  }
};

TEST(From, IsRestoredAtEveryPointAlsoWhereTheDatasetDraws) {
  for (const int workers : {1, 3})
    tests::expect_restorable([&] {
      return input::map(
          input::from(stacked(7, true),
                      {.rows = 3, .seed = 4, .prefetch = {.workers = workers, .epochs = 2}}),
          [](data::Example<> batch) { return Comparable{std::move(batch)}; });
    });
}

TEST(From, WorkersAndTheProcessesOwnSeedChangeNothing) {
  std::vector<Tensor> one, three;
  torch::manual_seed(1);
  targets_of(input::from(stacked(9, true), {.rows = 2, .prefetch = {.epochs = 2}}), &one);
  torch::manual_seed(2);
  targets_of(input::from(stacked(9, true), {.rows = 2, .prefetch = {.workers = 3, .epochs = 2}}),
             &three);
  ASSERT_EQ(one.size(), 10U);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], three.at(i)));
  EXPECT_FALSE(torch::equal(one[0] - one[0].floor(), one[5] - one[5].floor()));
}

TEST(From, WithoutStackABatchIsAListOfExamples) {
  const auto stream = input::from(Squares(5), {.rows = 2, .shuffle = false});
  const std::vector<data::Example<>> batch = *stream->next();
  ASSERT_EQ(batch.size(), 2U);
  EXPECT_EQ(batch[1].target.item<float>(), 10);
}

struct Endless : Squares {
  using Squares::Squares;
  torch::optional<std::size_t> size() const override { return torch::nullopt; }
};

struct Once : Squares {
  explicit Once(std::size_t rows) : Squares(rows), own(std::make_unique<int>(1)) {}
  std::unique_ptr<int> own;
};

TEST(From, RefusesWhatItCannotRead) {
  EXPECT_THROW(input::from(Endless(3)), ConfigError);
  EXPECT_THROW(input::from(Once(3), {.prefetch = {.workers = 2}}), ConfigError);
  EXPECT_TRUE(input::from(Once(3))->next().has_value());
  EXPECT_THROW(input::from(Squares(3), {.rows = 0}), ConfigError);
}

TEST(From, StaysWhereItIsWhenTheDatasetThrows) {
  struct Failing : Squares {
    using Squares::Squares;
    data::Example<> get(std::size_t index) override {
      if (index == 2 && !(*failed)++) throw std::runtime_error("not yet");
      return Squares::get(index);
    }
    std::shared_ptr<int> failed = std::make_shared<int>(0);
  };
  const auto stream =
      input::from(Failing(4), {.rows = 2, .shuffle = false, .prefetch = {.epochs = 1}});
  stream->next();
  EXPECT_THROW(stream->next(), std::runtime_error);
  EXPECT_EQ(tests::rest_of(stream).size(), 1U);
}

}  // namespace dataset_test
