// Greedy search and sampling: one text a row.

#include <cmath>
#include <limits>
#include <map>

#include "text/prefix_model.h"

namespace decode_test {

using namespace lockstep;
using namespace lockstep::text;

constexpr float kNever = -std::numeric_limits<float>::infinity();

PrefixModelOptions many_rows() {
  return {.vocabulary = 40,
          .seed = 7,
          .rows = {0, 1, 2, 3, 4, 5, 6, 7},
          .lengths = {6, 1, 3, 2, 6, 5, 4, 1},
          .end = 2};
}

std::vector<Hypothesis> sampled(const PrefixModelOptions& model, const SampleOptions& options) {
  PrefixModel fresh(model);
  return sample(fresh, options);
}

TEST(Decode, GreedyTakesTheMostLikelyTokenEachTime) {
  const PrefixModelOptions options = many_rows();
  PrefixModel model(options);
  const std::vector<Hypothesis> found = greedy_search(model, 12);
  ASSERT_EQ(found.size(), options.rows.size());
  const PrefixModel oracle(options);
  for (std::size_t row = 0; row < found.size(); ++row) {
    PrefixModel::State state = oracle.start(row);
    std::vector<std::int32_t> written = found[row].tokens;
    if (found[row].ended) written.push_back(kEnd);
    double log_probability = 0;
    std::int32_t last = kBegin;
    for (const std::int32_t token : written) {
      PrefixModel::advance(state, last);
      const torch::Tensor choices = oracle.log_probabilities(state);
      EXPECT_EQ(token, kEnd + choices.slice(0, kEnd).argmax().item<std::int64_t>());
      log_probability += choices[token].item<float>();
      last = token;
    }
    EXPECT_EQ(found[row].log_probability, log_probability);
    EXPECT_EQ(found[row].score, log_probability);
    EXPECT_TRUE(found[row].ended || found[row].tokens.size() == 12);
  }
}

TEST(Decode, RowsThatEndedTakeNoMoreTime) {
  PrefixModel model(many_rows());
  std::int64_t tokens = 0;
  for (const Hypothesis& text : greedy_search(model, 12))
    tokens += static_cast<std::int64_t>(text.tokens.size()) + (text.ended ? 1 : 0);
  EXPECT_EQ(model.rows_seen, tokens);
}

TEST(Decode, AmongEqualsGreedyTakesTheLowerToken) {
  ConstantModel model({0, 0, 0, -2, -1, -1}, 1);
  const Hypothesis text = greedy_search(model, 3)[0];
  EXPECT_EQ(text.tokens, (std::vector<std::int32_t>{4, 4, 4}));
  EXPECT_FALSE(text.ended);
  EXPECT_EQ(text.log_probability, -3);
}

TEST(Decode, ALongVocabularyIsSearchedToItsEnd) {
  for (const std::size_t best : {4U, 127U, 128U, 130U, 131U, 998U, 999U}) {
    std::vector<float> choices(1000, -5);
    choices[best] = -4;
    ConstantModel model(choices, 1);
    EXPECT_EQ(greedy_search(model, 1)[0].tokens[0], static_cast<std::int32_t>(best));
  }
}

TEST(Decode, GreedyKeepsWhatTheModelLookedAt) {
  const PrefixModelOptions options = many_rows();
  PrefixModel model(options);
  const std::vector<Hypothesis> found = greedy_search(model, 12, true);
  const PrefixModel oracle(options);
  for (std::size_t row = 0; row < found.size(); ++row) {
    const Hypothesis& text = found[row];
    const auto length = static_cast<std::int64_t>(text.tokens.size()) + (text.ended ? 1 : 0);
    ASSERT_EQ(text.attention.sizes(), torch::IntArrayRef({length, 6}));
    PrefixModel::State state = oracle.start(row);
    std::int32_t last = kBegin;
    for (std::int64_t i = 0; i < length; ++i) {
      PrefixModel::advance(state, last);
      EXPECT_TRUE(torch::equal(text.attention[i], oracle.attention(state)));
      last = i < static_cast<std::int64_t>(text.tokens.size())
                 ? text.tokens[static_cast<std::size_t>(i)]
                 : kEnd;
    }
  }
}

TEST(Decode, AttentionIsUndefinedIfTheModelCannotTell) {
  ConstantModel model({0, 0, 0, -1, -2}, 2);
  EXPECT_FALSE(greedy_search(model, 3, true)[1].attention.defined());
}

TEST(Decode, NoRowsGiveNoTexts) {
  ConstantModel model({0, 0, 0, -1, -2}, 0);
  EXPECT_TRUE(greedy_search(model, 3).empty());
  EXPECT_TRUE(sample(model, {}).empty());
}

TEST(Decode, SampledTokensAreAsFrequentAsTheyAreLikely) {
  // What may not be written, and the impossible, leave their share to the others.
  const std::vector<float> choices = {-0.7F,          -0.7F,  -0.7F,         std::log(0.1F),
                                      std::log(0.4F), kNever, std::log(0.3F)};
  constexpr std::int64_t kRows = 20000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    ConstantModel model(choices, kRows);
    std::map<std::int32_t, double> share;
    for (const Hypothesis& text :
         sample(model, {.temperature = temperature, .max_length = 1, .seed = 3}))
      share[text.ended ? kEnd : text.tokens[0]] += 1.0 / kRows;
    std::map<std::int32_t, double> expected = {{kEnd, 0.1}, {4, 0.4}, {6, 0.3}};
    double sum = 0;
    for (auto& [token, weight] : expected) sum += weight = std::pow(weight, 1 / temperature);
    ASSERT_EQ(share.size(), 3U);
    // Four standard deviations of a share of a half.
    for (const auto& [token, weight] : expected)
      EXPECT_NEAR(share[token], weight / sum, 0.015) << token << ' ' << temperature;
  }
}

TEST(Decode, TopKDrawsOnlyFromTheMostLikely) {
  const std::vector<float> choices = {
      0, 0, 0, std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};
  constexpr std::int64_t kRows = 20000;
  ConstantModel model(choices, kRows);
  std::map<std::int32_t, double> share;
  for (const Hypothesis& text : sample(model, {.top_k = 2, .max_length = 1, .seed = 3}))
    share[text.tokens.at(0)] += 1.0 / kRows;
  ASSERT_EQ(share.size(), 2U);
  EXPECT_NEAR(share[4], 4.0 / 7, 0.015);
  EXPECT_NEAR(share[6], 3.0 / 7, 0.015);
}

TEST(Decode, TheSameSeedDrawsTheSameAndAnotherDoesNot) {
  const auto first = sampled(many_rows(), {.seed = 5}), again = sampled(many_rows(), {.seed = 5});
  const auto other = sampled(many_rows(), {.seed = 6});
  int different = 0;
  for (std::size_t row = 0; row < first.size(); ++row) {
    expect_equal(first[row], again[row]);
    different += first[row].tokens != other[row].tokens;
  }
  EXPECT_GT(different, 4);
}

TEST(Decode, ARowsDrawsDoNotDependOnTheOtherRows) {
  for (const int top_k : {0, 5}) {
    const SampleOptions options = {.temperature = 1.5, .top_k = top_k, .seed = 5};
    PrefixModelOptions all = many_rows(), others = all;
    others.rows = {0, 11, 12, 3};
    others.lengths = {6, 1, 1, 2};
    const auto found = sampled(all, options), among_others = sampled(others, options);
    expect_equal(found[0], among_others[0]);
    expect_equal(found[3], among_others[3]);
  }
}

TEST(Decode, SamplingGoesToGreedyWithTheTemperatureAndIsGreedyWithATopKOfOne) {
  PrefixModel model(many_rows());
  const std::vector<Hypothesis> greedy = greedy_search(model, 12);
  for (const double temperature : {0.0, 1e-310, 1e-40, 1e-3}) {
    const auto cold = sampled(many_rows(), {.temperature = temperature, .max_length = 12});
    const auto cold_top =
        sampled(many_rows(), {.temperature = temperature, .top_k = 3, .max_length = 12});
    for (std::size_t row = 0; row < greedy.size(); ++row) {
      expect_equal(greedy[row], cold[row]);
      expect_equal(greedy[row], cold_top[row]);
    }
  }
  const auto top = sampled(many_rows(), {.temperature = 9, .top_k = 1, .max_length = 12});
  for (std::size_t row = 0; row < greedy.size(); ++row) expect_equal(greedy[row], top[row]);
}

TEST(Decode, AModelThatSaysNothingFiniteIsAnError) {
  for (const float bad : {kNever, std::numeric_limits<float>::quiet_NaN()}) {
    ConstantModel model({0, 0, 0, bad, bad, bad}, 2);
    EXPECT_THROW(greedy_search(model, 3), NonFiniteError);
    EXPECT_THROW(sample(model, {}), NonFiniteError);
    EXPECT_THROW(sample(model, {.top_k = 2}), NonFiniteError);
  }
}

TEST(Decode, BadOptionsAreNamed) {
  ConstantModel model({0, 0, 0, -1, -2}, 1);
  expect_config_error("max_length is 0", [&] { greedy_search(model, 0); });
  expect_config_error("max_length is -1", [&] { sample(model, {.max_length = -1}); });
  expect_config_error("temperature is -", [&] { sample(model, {.temperature = -0.5}); });
  expect_config_error("temperature is nan", [&] { sample(model, {.temperature = std::nan("")}); });
  expect_config_error("top_k is -3", [&] { sample(model, {.top_k = -3}); });
}

}  // namespace decode_test
