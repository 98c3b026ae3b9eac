// Parameter groups, and what is out of range.

#include "optim/rules.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>

#include <limits>

namespace rules_test {

using namespace lockstep;
using optim::matches;
using optim::Terms;
using optim::terms_for;

const std::vector<std::string> kNames = {"conv.weight", "conv.bias", "head.weight"};

/// The message of the ConfigError that `program` throws, else empty.
template <class Program>
std::string message_of(const Program& program) {
  try {
    program();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const Method& method) {
  return message_of([&] { optim::validate(method, kNames); });
}

std::string refusal(const Optimizer& optimizer, const std::vector<ParameterRule>& rules = {},
                    const Clip& clip = {}, const std::optional<MovingAverage>& average = {}) {
  return refusal(
      Method{.optimizer = optimizer, .rules = rules, .clip = clip, .moving_average = average});
}

void expect_refused(const std::string& message, const std::string& field) {
  EXPECT_EQ(message.substr(0, field.size()), field) << message;
}

TEST(Rules, WithoutAStarThePatternIsTheName) {
  EXPECT_TRUE(matches("conv.bias", "conv.bias"));
  EXPECT_FALSE(matches("conv.bias", "conv.bias2"));
  EXPECT_FALSE(matches("conv.bias", "my.conv.bias"));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_TRUE(matches("", ""));
}

TEST(Rules, AStarStandsForAnyTextAlsoNone) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*", "conv.bias"));
  EXPECT_TRUE(matches("*.bias", "layers.3.bias"));
  EXPECT_TRUE(matches("*.bias", ".bias"));
  EXPECT_FALSE(matches("*.bias", "bias"));
  EXPECT_FALSE(matches("*.bias", "conv.bias.weight"));
  EXPECT_TRUE(matches("conv.*", "conv.weight"));
  EXPECT_FALSE(matches("conv.*", "conv"));
  EXPECT_TRUE(matches("layers.*.weight", "layers.0.mix.weight"));
  EXPECT_FALSE(matches("layers.*.weight", "layers.weight"));
  EXPECT_TRUE(matches("*norm*", "first.norm1.bias"));
  EXPECT_TRUE(matches("a**b", "ab"));
  EXPECT_TRUE(matches("*a*a", "banana"));
  EXPECT_FALSE(matches("a*a", "a"));
}

TEST(Rules, OtherSignsAreTakenAsWritten) {
  EXPECT_FALSE(matches("conv.b?as", "conv.bias"));
  EXPECT_FALSE(matches("conv.bias", "convXbias"));
  EXPECT_TRUE(matches("a[0]", "a[0]"));
}

TEST(Rules, TheFirstRuleThatMatchesCounts) {
  const std::vector<ParameterRule> rules = {{.pattern = "conv.*", .lr_factor = 0.1},
                                            {.pattern = "*.bias", .weight_decay = 0.0},
                                            {.pattern = "*", .lr_factor = 3}};
  EXPECT_EQ(terms_for("conv.bias", {.rules = rules}), (Terms{.lr_factor = 0.1}));
  EXPECT_EQ(terms_for("head.bias", {.rules = rules}), (Terms{.weight_decay = 0.0}));
  EXPECT_EQ(terms_for("head.weight", {.rules = rules}), (Terms{.lr_factor = 3}));
}

TEST(Rules, WithoutARuleTheOptimizersOwnTermsHold) {
  EXPECT_EQ(terms_for("conv.bias", {.rules = {{.pattern = "other", .lr_factor = 9}}}), Terms{});
  EXPECT_EQ(terms_for("conv.bias", {}), Terms{});
}

TEST(Rules, TheFirstGroupThatMatchesHasTheParameterAndRulesApplyOnTop) {
  const Method method{.optimizer = Sgd{.lr = 1},
                      .groups = {{"conv.b*", Adam{.lr = 2}}, {"conv.*", Adagrad{.lr = 3}}},
                      .rules = {{.pattern = "*.bias", .lr_factor = 0.5, .weight_decay = 0.25}}};
  EXPECT_EQ(terms_for("conv.bias", method), (Terms{1, 0.5, 0.25}));
  EXPECT_EQ(terms_for("conv.weight", method), (Terms{2, 1, std::nullopt}));
  EXPECT_EQ(terms_for("head.bias", method), (Terms{0, 0.5, 0.25}));
  for (const std::size_t i : {0, 1, 2})
    EXPECT_EQ(learning_rate(optim::optimizer_of(method, i)), static_cast<double>(i + 1));
  EXPECT_EQ(refusal(method), "");
  EXPECT_EQ(optim::group_number(method, "conv.*"), 2U);
  expect_refused(message_of([&] { optim::group_number(method, "head.*"); }),
                 "there is no group 'head.*'; method.groups has conv.b*, conv.*");
}

TEST(Rules, AGroupWithoutAParameterIsAnError) {
  expect_refused(refusal(Method{.groups = {{"tail.*", Sgd{}}}}),
                 "group 'tail.*' matches no trainable parameter");
  expect_refused(refusal(Method{.groups = {{"conv.*", Sgd{}}, {"conv.bias", Sgd{}}}}),
                 "group 'conv.bias' has no parameter");
  expect_refused(refusal(Method{.groups = {{"conv.*", Adam{.beta1 = 1}}}}),
                 "group 'conv.*': optimizer.beta1");
}

TEST(Rules, AnOptimizerMayBeFollowedByOneOfItsKindThatNeedsNoOtherSlots) {
  const auto next = [](const Optimizer& made, const Optimizer& other) {
    return message_of([&] { optim::require_same_slots("optimizer", made, other); });
  };
  EXPECT_EQ(next(Sgd{.momentum = 0.5}, Sgd{.momentum = 0.9, .dampening = 0.1}), "");
  EXPECT_EQ(next(Sgd{.momentum = 0.5}, Sgd{}), "");
  EXPECT_EQ(next(Adam{}, Adam{.beta1 = 0.5}), "");
  EXPECT_EQ(next(Adam{.amsgrad = true}, Adam{}), "");
  expect_refused(next(Sgd{}, Sgd{.momentum = 0.9}),
                 "optimizer would need the slots momentum, and it was made with none");
  expect_refused(next(Adam{}, Adam{.amsgrad = true}),
                 "optimizer would need the slots exp_avg, exp_avg_sq, max_exp_avg_sq, and");
  expect_refused(next(RmsProp{.momentum = 0.9, .centered = true}, RmsProp{.momentum = 0.9}),
                 "optimizer would need the slots mean_square, momentum, and");
  expect_refused(next(Adam{}, AdamW{}), "optimizer is Adam, not AdamW");
}

TEST(Rules, DefaultsAndRangesEndsAreAccepted) {
  for (const Optimizer& optimizer : std::vector<Optimizer>{Sgd{}, Adam{}, AdamW{}, RmsProp{},
                                                           Adagrad{}, tensorflow_rms_prop(0.1)})
    EXPECT_EQ(refusal(optimizer), "");
  EXPECT_EQ(refusal(Sgd{.lr = 0}), "");
  EXPECT_EQ(refusal(Adam{.beta1 = 0, .beta2 = 0}), "");
  EXPECT_EQ(refusal(Sgd{}, {{.pattern = "*.bias", .lr_factor = 0, .weight_decay = 0.0}}), "");
  EXPECT_EQ(refusal(Sgd{}, {}, {.global_norm = 5}, MovingAverage{.decay = 1}), "");
  EXPECT_EQ(refusal(Sgd{}, {}, {.per_shard_norm = 5}, MovingAverage{.decay = 0}), "");
}

TEST(Rules, ARuleThatMatchesNothingIsAnError) {
  const std::string message = refusal(Sgd{}, {{.pattern = "*.bias"}, {.pattern = "*.gamma"}});
  expect_refused(message, "rule '*.gamma' matches no trainable parameter");
  EXPECT_NE(message.find("conv.weight"), std::string::npos) << message;  // what a name looks like
}

TEST(Rules, AValueOutOfRangeIsNamed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {-1.0, nan, infinity}) {
    expect_refused(refusal(Sgd{.lr = bad}), "optimizer.lr");
    expect_refused(refusal(AdamW{.weight_decay = bad}), "optimizer.weight_decay");
    expect_refused(refusal(Adam{.epsilon = bad}), "optimizer.epsilon");
    expect_refused(refusal(Adagrad{.lr_decay = bad}), "optimizer.lr_decay");
    expect_refused(refusal(Adagrad{.epsilon = bad}), "optimizer.epsilon");
    expect_refused(refusal(Adagrad{.initial_accumulator = bad}), "optimizer.initial_accumulator");
    expect_refused(refusal(RmsProp{.epsilon = bad}), "optimizer.epsilon");
    expect_refused(refusal(RmsProp{.initial_mean_square = bad}), "optimizer.initial_mean_square");
    expect_refused(refusal(Sgd{}, {{"*", bad}}), "rule '*': lr_factor");
    expect_refused(refusal(Sgd{}, {{"*", 1, bad}}), "rule '*': weight_decay");
    expect_refused(refusal(Sgd{}, {}, {.global_norm = bad}), "clip.global_norm");
    expect_refused(refusal(Sgd{}, {}, {.per_shard_norm = bad}), "clip.per_shard_norm");
  }
  for (const double bad : {-0.1, 1.0, nan}) {
    expect_refused(refusal(Sgd{.momentum = bad}), "optimizer.momentum");
    expect_refused(refusal(Adam{.beta1 = bad}), "optimizer.beta1");
    expect_refused(refusal(AdamW{.beta2 = bad}), "optimizer.beta2");
    expect_refused(refusal(RmsProp{.decay = bad}), "optimizer.decay");
    expect_refused(refusal(Sgd{.dampening = bad * nan}), "optimizer.dampening");
    expect_refused(refusal(RmsProp{.momentum = bad}), "optimizer.momentum");
  }
  for (const double bad : {-0.1, 1.1, nan})
    expect_refused(refusal(Sgd{}, {}, {}, MovingAverage{.decay = bad}), "moving_average.decay");
}

TEST(Rules, NesterovNeedsMomentumAndTheTwoClipsExcludeEachOther) {
  expect_refused(refusal(Sgd{.nesterov = true}), "optimizer.momentum");
  EXPECT_EQ(refusal(Sgd{.momentum = 0.9, .nesterov = true}), "");
  expect_refused(refusal(Sgd{.momentum = 0.9, .nesterov = true, .dampening = 0.1}),
                 "optimizer.dampening");
  expect_refused(refusal(Sgd{}, {}, {.global_norm = 1, .per_shard_norm = 1}),
                 "clip.global_norm and");
}

TEST(Rules, TheLearningRateOfAnyOptimizerCanBeReadAndSet) {
  for (Optimizer optimizer : std::vector<Optimizer>{Sgd{}, Adam{}, AdamW{}, RmsProp{}, Adagrad{}}) {
    set_learning_rate(optimizer, 0.125);
    EXPECT_EQ(learning_rate(optimizer), 0.125);
  }
  EXPECT_EQ(learning_rate(Adam{.lr = 0.5}), 0.5);
}

}  // namespace rules_test
