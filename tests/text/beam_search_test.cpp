// Beam search, against exhaustive search and against a plain one that looks at a row at a time.

#include <cmath>
#include <limits>

#include "sim/on_sim.h"
#include "text/plain_search.h"
#include "text/prefix_model.h"

namespace beam_search_test {

using namespace lockstep;
using namespace lockstep::text;
using Tokens = std::vector<std::int32_t>;

PrefixModelOptions tiny(std::uint64_t seed) {
  return {.seed = seed, .rows = {0, 1, 2}, .lengths = {4, 6, 1}};
}

PrefixModelOptions larger(std::uint64_t seed) {
  return {.vocabulary = 30,
          .seed = seed,
          .rows = {0, 1, 2, 3, 4},
          .lengths = {6, 1, 3, 2, 5},
          .end = 2};
}

std::vector<std::vector<Hypothesis>> searched(const PrefixModelOptions& model,
                                              const BeamOptions& options) {
  PrefixModel fresh(model);
  return beam_search(fresh, options);
}

void expect_like_plain_search(const PrefixModelOptions& model, const BeamOptions& options) {
  const PrefixModel oracle(model);
  const auto found = searched(model, options);
  ASSERT_EQ(found.size(), model.rows.size());
  for (std::size_t row = 0; row < found.size(); ++row) {
    const std::vector<Hypothesis> expected = plain_search(oracle, row, options);
    ASSERT_EQ(found[row].size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expect_equal(found[row][i], expected[i]);
      EXPECT_NEAR(found[row][i].score, expected[i].score, 1e-12);
    }
  }
}

/// Calls `test` with all combinations of penalties.
template <class Test>
void for_all_penalties(BeamOptions options, Test test) {
  for (const double length : {0.0, 0.6, 1.5})
    for (const double coverage : {0.0, 0.3, 2.0}) {
      options.length_penalty = length;
      options.coverage_penalty = coverage;
      test(options);
    }
}

TEST(BeamSearch, AWidthOfTheWholeTreeFindsTheBestOfAllTexts) {
  // 5 own tokens: 1 + 5 + 25 + 125 texts end, 625 are cut at a length of 4.
  for (const std::uint64_t seed : {1U, 2U, 3U})
    for_all_penalties(
        {.width = 1000, .best = 20, .max_length = 4},
        [&](const BeamOptions& options) { expect_like_plain_search(tiny(seed), options); });
}

TEST(BeamSearch, WhatItDoesNotGoOnWithWouldNotHaveGotAmongTheBest) {
  for (const int width : {2, 5})
    for (const int best : {1, 2})
      for_all_penalties(
          {.width = width, .best = best, .max_length = 9},
          [&](const BeamOptions& options) { expect_like_plain_search(larger(11), options); });
}

TEST(BeamSearch, ARowIsDoneWhenNothingOpenCanGetAmongTheBest) {
  // The text that ends at once is likelier than any other can be.
  ConstantModel model({-9, -9, -9, -0.1F, -3, -3}, 4);
  struct Counting : TokenModel {
    explicit Counting(TokenModel& inner) : model(inner) {}
    std::int64_t rows() const override { return model.rows(); }
    torch::Tensor next(const torch::Tensor& tokens) override {
      ++steps;
      return model.next(tokens);
    }
    void select(const torch::Tensor& rows) override { model.select(rows); }
    TokenModel& model;
    int steps = 0;
  } counting(model);
  const auto found = beam_search(counting, {.max_length = 100, .length_penalty = 0.6});
  EXPECT_TRUE(found[3][0].ended && found[3][0].tokens.empty());
  EXPECT_EQ(counting.steps, 1);
}

TEST(BeamSearch, RowsThatAreDoneTakeNoMoreTime) {
  PrefixModelOptions both = larger(3), one = both;
  std::int64_t alone = 0;
  for (std::size_t row = 0; row < both.rows.size(); ++row) {
    one.rows = {both.rows[row]};
    one.lengths = {both.lengths[row]};
    PrefixModel model(one);
    beam_search(model, {.max_length = 9});
    alone += model.rows_seen;
  }
  PrefixModel model(both);
  beam_search(model, {.max_length = 9});
  EXPECT_EQ(model.rows_seen, alone);
  EXPECT_LT(alone, 5 * (1 + 8 * 5));  // what five rows of five beams to the end would take
}

TEST(BeamSearch, ARowsTextsDoNotDependOnTheOtherRows) {
  const BeamOptions options = {
      .width = 4, .best = 3, .max_length = 9, .coverage_penalty = 0.2, .keep_attention = true};
  const auto together = searched(larger(5), options);
  for (std::size_t row = 0; row < together.size(); ++row) {
    PrefixModelOptions one = larger(5);
    one.rows = {one.rows[row]};
    one.lengths = {one.lengths[row]};
    const auto alone = searched(one, options)[0];
    ASSERT_EQ(alone.size(), together[row].size());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      expect_equal(alone[i], together[row][i]);
      EXPECT_EQ(alone[i].score, together[row][i].score);
    }
  }
}

TEST(BeamSearch, AWidthOfOneEqualsGreedyToTheBit) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    PrefixModel model(larger(seed));
    const auto greedy = greedy_search(model, 9, true);
    for_all_penalties({.width = 1, .max_length = 9, .keep_attention = true},
                      [&](const BeamOptions& options) {
                        const auto beam = searched(larger(seed), options);
                        for (std::size_t row = 0; row < greedy.size(); ++row)
                          expect_equal(beam[row].at(0), greedy[row]);
                      });
  }
}

TEST(BeamSearch, PaddingOfTheSourceDoesNotChangeScores) {
  const BeamOptions options = {.width = 4, .best = 3, .max_length = 6, .coverage_penalty = 0.5};
  PrefixModelOptions padded = tiny(4);
  padded.source_length = 50;
  const auto some = searched(tiny(4), options), much = searched(padded, options);
  for (std::size_t row = 0; row < some.size(); ++row)
    for (std::size_t i = 0; i < some[row].size(); ++i) {
      EXPECT_EQ(some[row][i].tokens, much[row][i].tokens);
      EXPECT_NEAR(some[row][i].score, much[row][i].score, 1e-12);
    }
}

TEST(BeamSearch, AttentionIsThatOfEachTextsOwnSteps) {
  const PrefixModel oracle(larger(8));
  const auto found =
      searched(larger(8), {.width = 5, .best = 5, .max_length = 9, .keep_attention = true});
  for (std::size_t row = 0; row < found.size(); ++row)
    for (const Hypothesis& text : found[row]) {
      const auto length = static_cast<std::int64_t>(text.tokens.size()) + (text.ended ? 1 : 0);
      ASSERT_EQ(text.attention.sizes(), torch::IntArrayRef({length, 6}));
      PrefixModel::State state = oracle.start(row);
      for (std::int64_t i = 0; i < length; ++i) {
        PrefixModel::advance(state, i ? text.tokens[static_cast<std::size_t>(i - 1)] : kBegin);
        EXPECT_TRUE(torch::equal(text.attention[i], oracle.attention(state)));
      }
    }
}

TEST(BeamSearch, ADeviceWithItsOwnMemoryGivesTheSameTexts) {
  struct Remote : PrefixModel {
    using PrefixModel::PrefixModel;
    torch::Tensor next(const torch::Tensor& tokens) override {
      EXPECT_TRUE(tokens.is_cpu());
      const device::DeviceScope on_the_host(torch::kCPU);
      return PrefixModel::next(tokens).to(on_sim::device(0));
    }
    torch::Tensor attention() const override {
      const device::DeviceScope on_the_host(torch::kCPU);
      return PrefixModel::attention().to(on_sim::device(0));
    }
  };
  sim::install();
  const BeamOptions options = {
      .width = 4, .best = 3, .max_length = 9, .coverage_penalty = 0.2, .keep_attention = true};
  const SampleOptions draws = {.max_length = 9, .seed = 2};
  const auto here = searched(larger(5), options);
  PrefixModel local(larger(5));
  Remote remote(larger(5)), other(larger(5));
  const auto drawn_here = sample(local, draws);
  const device::DeviceScope scope(on_sim::device(0));
  const auto there = beam_search(remote, options);
  const auto drawn_there = sample(other, draws);
  for (std::size_t row = 0; row < here.size(); ++row) {
    expect_equal(drawn_here[row], drawn_there[row]);
    for (std::size_t i = 0; i < here[row].size(); ++i) expect_equal(here[row][i], there[row].at(i));
  }
}

TEST(BeamSearch, AmongEqualsTheLowerTokenIsFirstThenTheBetterBeginning) {
  ConstantModel model({0, 0, 0, -100, -1, -1, -1}, 2);
  const auto found = beam_search(model, {.width = 3, .best = 3, .max_length = 2});
  ASSERT_EQ(found[1].size(), 3U);
  EXPECT_EQ(found[1][0].tokens, (Tokens{4, 4}));
  EXPECT_EQ(found[1][1].tokens, (Tokens{5, 4}));
  EXPECT_EQ(found[1][2].tokens, (Tokens{6, 4}));
}

TEST(BeamSearch, TextsThatDidNotEndComeAfterThoseThatDid) {
  // To end is unlikely, but one of the two texts ends.
  ConstantModel model({0, 0, 0, -2, -1}, 1);
  const auto found = beam_search(model, {.width = 2, .best = 2, .max_length = 1})[0];
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].ended);
  EXPECT_EQ(found[0].log_probability, -2);
  EXPECT_FALSE(found[1].ended);
  EXPECT_EQ(found[1].tokens, Tokens{4});
  EXPECT_GT(found[1].score, found[0].score);
}

TEST(BeamSearch, AVocabularyThatAllowsFewerTextsGivesFewer) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  ConstantModel model({0, 0, 0, kNever, -1, kNever}, 1);
  const auto found = beam_search(model, {.width = 5, .best = 5, .max_length = 3})[0];
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].tokens, (Tokens{4, 4, 4}));
}

TEST(BeamSearch, ALengthPenaltyPrefersLongerTexts) {
  // Ending at once: log(0.3). Ending after one token: 2 log(0.5), less likely.
  struct TwoSteps : ConstantModel {
    TwoSteps() : ConstantModel({}, 1) {}
    torch::Tensor next(const torch::Tensor& tokens) override {
      const bool first = tokens[0].item<std::int64_t>() == kBegin;
      return torch::tensor(first ? std::vector<float>{-9, -9, -9, std::log(0.3F), std::log(0.5F)}
                                 : std::vector<float>{-9, -9, -9, std::log(0.5F), -9})
          .expand({rows(), 5});
    }
  };
  TwoSteps plain, penalised;
  EXPECT_EQ(beam_search(plain, {.length_penalty = 0})[0][0].tokens, Tokens{});
  EXPECT_EQ(beam_search(penalised, {.length_penalty = 1.5})[0][0].tokens, Tokens{4});
}

TEST(BeamSearch, CoverageNeedsAttention) {
  ConstantModel model({0, 0, 0, -1, -2}, 1);
  expect_config_error("coverage_penalty is 0.2",
                      [&] { beam_search(model, {.coverage_penalty = 0.2}); });
}

TEST(BeamSearch, NoRowsGiveNoTextsAndNoneWithoutAProbability) {
  ConstantModel none({0, 0, 0, -1, -2}, 0);
  EXPECT_TRUE(beam_search(none, {}).empty());
  ConstantModel broken({0, 0, 0, std::nanf(""), std::nanf("")}, 1);
  EXPECT_THROW(beam_search(broken, {}), NonFiniteError);
}

TEST(BeamSearch, BadOptionsAreNamed) {
  const auto refused = [](const std::string& option, const BeamOptions& options) {
    expect_config_error(option, [&] {
      ConstantModel model({0, 0, 0, -1, -2}, 1);
      beam_search(model, options);
    });
  };
  refused("width is 0", {.width = 0});
  refused("best is 0", {.best = 0});
  refused("best is 4 with a width of 3", {.width = 3, .best = 4});
  refused("max_length is 0", {.max_length = 0});
  refused("length_penalty is -", {.length_penalty = -0.1});
  refused("length_penalty is inf", {.length_penalty = INFINITY});
  refused("coverage_penalty is -", {.coverage_penalty = -1});
}

}  // namespace beam_search_test
