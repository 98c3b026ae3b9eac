// What is said when something is wrong with a recipe.

#include <gtest/gtest.h>

#include "apps/recipe_case.h"
#include "recipe/recipe.h"
#include "recipe/words.h"

namespace {

using namespace lockstep;
using namespace lockstep::apps;

TEST(RecipeErrors, AnUnknownKeyIsToldWithItsPlaceAndTheNearestName) {
  expect_in(refusal("[optimiser]\nlr = 1"),
            {"my.toml:2:1: ", "unknown key 'optimiser.lr'", "did you mean 'optimizer.lr'?"});
  expect_in(refusal("\n\n[optimizer]\n  momentun = 1"),
            {"my.toml:4:3: ", "'optimizer.momentun'", "[optimizer] has name, lr, momentum",
             "did you mean 'optimizer.momentum'?"});
  expect_in(refusal("sead = 1"), {"my.toml:1:1: ", "family, seed, shards", "'seed'?"});
}

TEST(RecipeErrors, AKeyInTheWrongSectionIsSentToItsOwn) {
  expect_in(refusal("lr = 1"), {"unknown key 'lr'", "did you mean 'optimizer.lr'?"});
  expect_in(refusal("[model]\nlr = 1"), {"unknown key 'model.lr'", "'optimizer.lr'?"});
}

TEST(RecipeErrors, AnUnknownSectionIsToldWithTheNearest) {
  expect_in(refusal("[optimiser]"),
            {"my.toml:1:", "unknown section [optimiser]", "data, model, init, optimizer, schedule",
             "did you mean 'optimizer'?"});
  expect_in(refusal("[nothing.like.it]\nx = 1"),
            {"unknown key 'nothing.like'", "the sections are"});
}

TEST(RecipeErrors, NothingIsSuggestedWhenNothingIsNear) {
  const std::string message = refusal("zzzzzzzzzz = 1");
  expect_in(message, {"unknown key 'zzzzzzzzzz'"});
  EXPECT_EQ(message.find("did you mean"), std::string::npos) << message;
}

TEST(RecipeErrors, AnEmptySectionIsFine) { EXPECT_EQ(refusal("[optimizer]\n[data]"), ""); }

TEST(RecipeErrors, ASectionIsNotAValueAndAValueIsNotASection) {
  expect_in(refusal("optimizer = 3"), {"my.toml:1:1: ", "'optimizer' is a section"});
  expect_in(refusal("[[optimizer]]\nlr = 1"), {"my.toml:1:", "'optimizer' is a section"});
  expect_in(refusal("[optimizer.lr]\nx = 1"),
            {"optimizer.lr", "found a table", "a number above 0"});
  expect_in(refusal("[seed]\nx = 1"), {"unknown key 'seed.x'"});
}

TEST(RecipeErrors, AKeyInQuotesIsNotADottedKey) {
  expect_in(refusal("\"optimizer.lr\" = 1"), {"unknown key '\"optimizer.lr\"'"});
}

TEST(RecipeErrors, AWrongTypeIsToldWithWhatWasFoundAndWhatIsAllowed) {
  expect_in(refusal("[data]\nbatch = \"64\""),
            {"my.toml:2:1: data.batch: found the text '64'", "allowed: an integer from 1 to"});
  expect_in(refusal("[data]\nbatch = 64.5"), {"found 64.5", "an integer"});
  expect_in(refusal("[data]\nbatch = 1e300"), {"found 1e300", "an integer"});
  expect_in(refusal("[data]\naugment = 1"), {"found 1", "true or false"});
  expect_in(refusal("[data]\npath = true"), {"found true", "a text"});
  expect_in(refusal("[optimizer]\nlr = 2024-01-01"), {"found a date", "a number above 0"});
  expect_in(refusal("[optimizer]\nname = 3"), {"found 3", "one of sgd, momentum"});
  expect_in(refusal("[schedule]\nboundaries = 3"), {"found 3", "a list of at most 100 integers"});
  expect_in(refusal("[schedule]\nboundaries = [1.5]"), {"found the list [1.5]"});
  expect_in(refusal("[schedule]\nfactors = ['a']"), {"found the list [\"a\"]", "100 numbers"});
  expect_in(refusal("[schedule]\nfactors = [[1]]"), {"found a list of something else"});
  expect_in(refusal("[schedule]\nfactors = [1, 'a']"), {"found a list of numbers and texts"});
  expect_in(refusal("[init]\nfreeze = 'a'"), {"found the text 'a'", "a list of at most 100 texts"});
  expect_in(refusal("[init]\nfreeze = [1]"), {"found the list [1]", "a list of at most 100 texts"});
}

TEST(RecipeErrors, AValueOutOfRangeIsRefused) {
  expect_in(refusal("[optimizer]\nlr = -0.1"), {"optimizer.lr: found -0.1", "a number above 0"});
  for (const char* line :
       {"seed = -1", "shards = -1", "shards = 0", "data.batch = 0", "data.batch = 3_000_000_000",
        "model.dropout = 1", "model.dropout = 1.0", "optimizer.lr = 0", "optimizer.lr = nan",
        "optimizer.lr = inf", "optimizer.average = 1", "optimizer.beta2 = -1e-9",
        "schedule.patience = 9_000_000_000", "schedule.factor = 1", "schedule.boundaries = [0]",
        "schedule.factors = [1, -1]", "schedule.floor = 1.01", "save.files = 0"})
    expect_in(refusal(line), {"my.toml:1:", "; allowed: "});
}

TEST(RecipeErrors, AnUnknownWordIsToldWithTheNearest) {
  expect_in(refusal("[optimizer]\nname = 'adma'"),
            {"my.toml:2:1: optimizer.name: found the text 'adma'", "one of sgd, momentum, adam, ",
             "did you mean 'adam'?"});
  expect_in(refusal("precision = 'float23'"), {"did you mean 'float32'?"});
  expect_in(refusal("family = 'clasify'"), {"one of classify", "did you mean 'classify'?"});
}

TEST(RecipeErrors, DuplicateKeysAndSyntaxErrorsHaveLineAndColumn) {
  expect_in(refusal("[optimizer]\nlr = 1\nlr = 2"), {"my.toml:3:", "not TOML", "lr"});
  expect_in(refusal("[data]\n[data]"), {"my.toml:2:", "not TOML"});
  expect_in(refusal("seed = = 1"), {"my.toml:1:8: ", "not TOML"});
  expect_in(refusal("seed = \"\xff\xfe\""), {"my.toml:1:", "not TOML"});
  expect_in(refusal("\n\nseed = 'a"), {"my.toml:3:", "not TOML"});
}

TEST(RecipeErrors, TheFirstErrorOfTheFileIsTold) {
  expect_in(refusal("[save]\nz = 1\n[data]\na = 1"), {"my.toml:2:1: "});
}

TEST(RecipeErrors, ControlCharactersAreNeitherReadNorShown) {
  const std::string message = refusal("[data]\npath = \"a\\u001b[31mb\"");
  expect_in(refusal("[init]\nfreeze = [\"a\\u001b\"]"), {"init.freeze", "control characters"});
  expect_in(message, {"data.path", "a\\x1b[31mb", "without control characters"});
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_EQ(refusal("\"\\u001b\" = 1").find('\x1b'), std::string::npos);
}

TEST(RecipeErrors, LongValuesAreNotRepeatedWhole) {
  EXPECT_LT(refusal("[data]\nkind = '" + nested("x", 900) + "'").size(), 400U);
  expect_in(refusal("[data]\npath = '" + nested("x", 1001) + "'"), {"at most 1000 bytes"});
  expect_in(refusal("[schedule]\nfactors = [" + nested("1,", 101) + "]"), {"at most 100 numbers"});
  for (const std::string& list : {nested("'x',", 101), "'" + nested("x", 1001) + "'"})
    expect_in(refusal("[init]\nfreeze = [" + list + "]"),
              {"at most 100 texts of at most 1000 bytes together"});
}

TEST(RecipeErrors, DeepNestingIsRefusedAndDoesNotExhaustTheStack) {
  expect_in(refusal("seed = " + nested("[", 2000)), {"my.toml:1:", "not TOML"});
  expect_in(refusal(nested("a.", 2000) + "a = 1"), {"unknown key 'a.a'"});
  expect_in(refusal("[" + nested("a.", 2000) + "a]\n" + nested("b.", 2000) + "b = 1"),
            {"unknown key 'a.a'"});
  const std::string inner = "[\n{" + nested("a.", 2000) + "a = ";
  expect_in(refusal("a = " + inner + "[\n1]}]"), {"unknown key 'a'"});
  expect_in(refusal("a = " + inner + inner + "1}]}]"), {"my.toml:3:", "not TOML", "depth"});
  expect_in(refusal(nested("a.", 3000) + "a = 1"), {"my.toml:1:1: a line of more than 4096 bytes"});
}

TEST(RecipeErrors, WhatTomlPlusPlusAssertsIsRefusedWithItsPlace) {
  for (const char* head :
       {"[", "[&", "[,]", "[[[a]]]", "[[=", "[ \t[a]]", "[[ ", "[]", "[[]]", "  [\n", "[\r\n",
        "[\u00a0a]", "\xef\xbb\xbf[&]", "[.a]", "[a.]", "[a", "[#]"}) {
    expect_in(refusal(head), {"my.toml:1:", "not TOML"});
    expect_in(refusal("seed = 1\n" + std::string(head)), {"my.toml:2:", "not TOML"});
  }
  expect_in(refusal("a = [\n}]"), {"my.toml:2:1: this is not TOML"});
  const std::string with_zeros("[\0\0,]", 5);
  expect_in(refusal(with_zeros), {"my.toml:1:", "not TOML"});
  EXPECT_EQ(refusal(" [ optimizer ] # x\n[\"data\"]\n['model']"), "");
}

TEST(RecipeErrors, LettersBeyondAsciiAreFineInTextsOnly) {
  for (const char* text : {"seed = ü", "seed = 0.Ϣ", "ü = 1", "[ü]", "seed = 1 §", "seed\u00a0= 1"})
    expect_in(refusal(text), {"my.toml:1:", "not TOML"});
  EXPECT_EQ(read("# ü\ndata.path = \"\"\"a\\\n§\"\"\"").data.path, "a§");
}

TEST(RecipeErrors, TextsOfMoreThanAMegabyteAreRefused) {
  expect_in(refusal(nested("# a comment\n", 100'000)), {"my.toml", "more than 1048576 bytes"});
  EXPECT_EQ(refusal(nested("# a comment\n", 80'000)), "");
}

TEST(RecipeRules, TheTrainingHasToEnd) {
  const std::string message = refusal([] { parse_recipe("seed = 1", "my.toml"); });
  expect_in(message, {"my.toml: train.steps", "train.epochs", "train.seconds"});
  for (const char* limit : {"train.steps=1", "train.epochs=1", "train.seconds=0.5"})
    EXPECT_NO_THROW(parse_recipe("", "my.toml", {limit})) << limit;
  expect_in(refusal("", {"train.steps=0"}), {"--set train.steps=0: train.steps is 0"});
}

TEST(RecipeRules, PiecewiseHasAscendingBoundariesAndOneMoreFactor) {
  const std::string begin = "[schedule]\nname = 'piecewise'\n";
  EXPECT_EQ(refusal(begin + "boundaries = [10, 20]\nfactors = [1, 0.1, 0.01]"), "");
  expect_in(refusal(begin + "boundaries = [10, 10]\nfactors = [1, 0.1, 0.01]"),
            {"my.toml:3:1: schedule.boundaries has to ascend", "10 comes after 10"});
  expect_in(refusal(begin + "boundaries = [10, 20]\nfactors = [1, 0.1]"),
            {"my.toml:4:1: schedule.factors has 2 numbers", "schedule.boundaries has 2"});
  expect_in(refusal(begin), {"my.toml:2:1: schedule.factors has 0 numbers"});
  EXPECT_EQ(refusal("[schedule]\nboundaries = [20, 10]"), "");
}

TEST(RecipeRules, DataThatIsNotInstalledNeedsItsFolder) {
  expect_in(refusal("[data]\nkind = 'folder'"), {"my.toml:2:1: data.path is empty"});
  expect_in(refusal("[data]\nkind = 'folder'\npath = 'a'"), {"data.test_path is empty"});
  expect_in(refusal("[data]\nkind = 'cifar10'"), {"data.path is empty"});
  EXPECT_EQ(refusal("[data]\nkind = 'cifar10'\npath = 'a'"), "");
  EXPECT_EQ(refusal("[data]\nkind = 'folder'\npath = 'a'\ntest_path = 'b'"), "");
}

TEST(RecipeRules, WhatAChoiceNeedsHasToBeThere) {
  expect_in(refusal("optimizer.name = 'momentum'"), {"optimizer.momentum is 0", "such as 0.9"});
  EXPECT_EQ(refusal("optimizer = {name = 'momentum', momentum = 0.9}"), "");
  expect_in(refusal("optimizer = {momentum = 0.9, nesterov = true, dampening = 0.1}"),
            {"optimizer.dampening is not 0", "optimizer.nesterov is true"});
  expect_in(refusal("schedule.name = 'exponential'"), {"schedule.decay_steps is 0"});
  EXPECT_EQ(refusal("schedule = {name = 'exponential', decay_steps = 10}"), "");
  EXPECT_EQ(refusal("schedule.name = 'cosine'"), "");
  expect_in(refusal("schedule.name = 'cosine'", {"train.steps=0", "train.seconds=5"}),
            {"schedule.decay_steps is 0", "train.steps, or train.epochs"});
  expect_in(refusal("evaluate.averaged = true"), {"evaluate.averaged", "optimizer.average"});
  EXPECT_EQ(refusal("evaluate.averaged = true\noptimizer.average = 0.99"), "");
  EXPECT_EQ(refusal("evaluate.metric = 'loss'"), "");
  expect_in(refusal("init.checksum = 'a'"),
            {"init.checksum is the checksum of nothing", "init.weights is empty"});
  EXPECT_EQ(refusal("init.checksum = 'a'\ninit.weights = 'b'"), "");
}

TEST(RecipeRules, FieldsThatTheStrategyDoesNotReadAreRefused) {
  expect_in(refusal("async.delay = 5"),
            {"my.toml:1:", "async.delay is read only when strategy is async, and it is mirrored"});
  expect_in(refusal("strategy = 'async'", {"async.staleness=5"}),
            {"--set async.staleness=5: ", "read only when async.order is free, and it is delay"});
  expect_in(refusal("strategy = 'async'\nasync = {order = 'free', delay = 5}"),
            {"async.delay is read only when async.order is delay, and it is free"});
  EXPECT_EQ(refusal("async.delay = 3"), "") << "its default, as it is printed";
  EXPECT_EQ(refusal("strategy = 'async'\nasync = {delay = 5, compensation = 0.04}"), "");
  EXPECT_EQ(refusal("strategy = 'async'\nasync = {order = 'free', staleness = 5}"), "");
  expect_in(refusal("pipeline.recompute = true"),
            {"my.toml:1:", "pipeline.recompute is read only when strategy is pipeline"});
  expect_in(refusal("strategy = 'pipeline'\nasync.delay = 5"),
            {"async.delay is read only when strategy is async, and it is pipeline"});
  EXPECT_EQ(refusal("strategy = 'pipeline'\npipeline = {stages = 4, ahead = 1}"), "");
  expect_in(refusal("strategy = 'pipeline'\npipeline.stages = 1"),
            {"my.toml:2:", "pipeline.stages", "from 2 to 1024"});
  expect_in(refusal("strategy = 'asynk'"), {"my.toml:1:", "mirrored, async", "'async'?"});
}

TEST(Nearest, CountsInsertedLeftOutReplacedAndSwappedLetters) {
  const Sets names = {"adam", "adamw", "sgd"};
  EXPECT_EQ(nearest("adam", names), "adam");
  EXPECT_EQ(nearest("adma", names), "adam");
  EXPECT_EQ(nearest("adaw", names), "adam");
  EXPECT_EQ(nearest("addamw", names), "adamw");
  EXPECT_EQ(nearest("Sgd", names), "sgd");
  EXPECT_EQ(nearest("momentum", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest(nested("adam", 1000), names), "");
}

}  // namespace
