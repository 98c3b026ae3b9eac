#include <gtest/gtest.h>
#include <lockstep/method.h>

namespace lockstep {
namespace method_test {

std::vector<std::string> differences(const Method& before, const Method& now) {
  std::vector<std::string> lines;
  for (const FieldChange& change : changes(fields_of(before), fields_of(now)))
    lines.push_back(describe(change));
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Method, EachFieldThatDiffersIsNamedWithBothValues) {
  const Method method{.shards = 8, .optimizer = Adam{.lr = 0.1}, .seed = 3};
  EXPECT_EQ(differences(method, method), Lines{});
  const auto changed = [&](const auto& change) {
    Method other = method;
    change(other);
    return differences(method, other);
  };
  EXPECT_EQ(changed([](Method& m) { m.shards = 4; }), Lines{"shards: 8 -> 4"});
  EXPECT_EQ(changed([](Method& m) { m.seed = 4; }), Lines{"seed: 3 -> 4"});
  EXPECT_EQ(changed([](Method& m) { m.optimizer = Adam{.lr = 0.1 + 0.2}; }),
            Lines{"optimizer.lr: 0.1 -> 0.30000000000000004"});
  EXPECT_EQ(changed([](Method& m) { m.clip.global_norm = 5; }), Lines{"clip.global_norm: 0 -> 5"});
  EXPECT_EQ(changed([](Method& m) { m.non_finite = NonFinite::skip; }),
            Lines{"non_finite: refuse -> skip"});
  EXPECT_EQ(changed([](Method& m) { m.precision = Precision::bfloat16; }),
            Lines{"precision: float32 -> bfloat16"});
  EXPECT_EQ(changed([](Method& m) { m.reduction = Reduction::fast; }),
            Lines{"reduction: exact -> fast"});
  EXPECT_EQ(changed([](Method& m) { m.rules = {{.pattern = "*.bias", .weight_decay = 0}}; }),
            Lines{"rules: none -> *.bias lr_factor 1 weight_decay 0"});
  EXPECT_EQ(changed([](Method& m) { m.moving_average = MovingAverage{.decay = 0.5}; }),
            (Lines{"moving_average.decay: none -> 0.5", "moving_average.warm_up: none -> false"}));
}

TEST(Method, AnotherOptimizerDiffersInItsNameAndItsFields) {
  const Lines lines = differences({.optimizer = Adam{.lr = 0.1}}, {.optimizer = Sgd{.lr = 0.1}});
  EXPECT_EQ(lines, (Lines{"optimizer: adam -> sgd", "optimizer.beta1: 0.9 -> none",
                          "optimizer.beta2: 0.999 -> none", "optimizer.epsilon: 1e-08 -> none",
                          "optimizer.momentum: none -> 0", "optimizer.nesterov: none -> false"}));
}

TEST(Method, GroupsAreNamedByTheirPatternsAndTheirOrderCounts) {
  const Method method{.groups = {{"a.*", Adam{.lr = 0.1}}, {"b.*", Sgd{.lr = 0.2}}}};
  Method other = method;
  EXPECT_EQ(differences(method, other), Lines{});
  other.groups[0].optimizer = Adam{.lr = 0.3, .amsgrad = true};
  EXPECT_EQ(differences(method, other),
            (Lines{"groups.a.*.amsgrad: none -> true", "groups.a.*.lr: 0.1 -> 0.3"}));
  other = method;
  std::swap(other.groups[0], other.groups[1]);
  EXPECT_EQ(differences(method, other), Lines{"groups: a.*; b.* -> b.*; a.*"});
  other.groups.clear();
  EXPECT_EQ(differences(method, other).size(), fields_of(method).size() - fields_of({}).size());
}

TEST(Method, WhatIsOffHasNoField) {  // so that manifests stay as they were
  EXPECT_FALSE(fields_of({}).contains("groups"));
  EXPECT_FALSE(fields_of({}).contains("optimizer.dampening"));
  EXPECT_FALSE(fields_of({.optimizer = Adam{}}).contains("optimizer.amsgrad"));
}

TEST(Method, EveryFieldOfEveryOptimizerCounts) {
  const auto count = [](const Optimizer& a, const Optimizer& b) {
    return differences({.optimizer = a}, {.optimizer = b}).size();
  };
  EXPECT_EQ(count(Sgd{1, 0, false, 0, 0}, Sgd{2, 1, true, 1, 1}), 5U);
  EXPECT_EQ(count(Adam{1, 0, 0, 1, 0, false}, Adam{2, 1, 1, 2, 1, true}), 6U);
  EXPECT_EQ(count(AdamW{1, 0, 0, 1, 0, false}, AdamW{2, 1, 1, 2, 1, true}), 6U);
  EXPECT_EQ(count(Adagrad{1, 0, 0, 0, 0}, Adagrad{2, 1, 1, 1, 1}), 5U);
  EXPECT_EQ(count(RmsProp{1, 0, 0, 0, false, 0, false, false, 0},
                  RmsProp{2, 1, 1, 1, true, 1, true, true, 1}),
            9U);
}

}  // namespace method_test
}  // namespace lockstep
