// Recipes: reading, --set, printing, comparing, and what is said when something is wrong.

#include "recipe/recipe.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "recipe/fields.h"
#include "recipe/words.h"

namespace {

using namespace lockstep;
using namespace lockstep::apps;
namespace fs = std::filesystem;
using Sets = std::vector<std::string>;

/// A recipe that keeps every rule, with `text` behind it.
Recipe read(const std::string& text, const Sets& sets = {}) {
  return parse_recipe(text + "\n[train]\nsteps = 1\n", "my.toml", sets);
}

/// What the ConfigError says that `action` throws; empty when it throws none.
std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const std::string& text, const Sets& sets = {}) {
  return refusal([&] { read(text, sets); });
}

void expect_in(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
}

std::string nested(const std::string& unit, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += unit;
  return text;
}

class RecipeFile : public testing::Test {
 protected:
  RecipeFile() {
    std::string name = testing::TempDir() + "lockstep-recipe-XXXXXX";
    if (!mkdtemp(name.data())) throw IoError(name, "make", errno);
    folder_ = name;
  }
  ~RecipeFile() override { fs::remove_all(folder_); }

  std::string folder() const { return folder_.string(); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

 private:
  fs::path folder_;
};

TEST(Recipe, EveryKindOfFieldIsRead) {
  const Recipe recipe = read(R"(
    seed = 7
    shards = 8
    precision = "bfloat16"
    data = {path = "a b/ü", augment = false}
    optimizer.lr = 0.25
    [schedule]
    warm_up = 5_000_000_000
    boundaries = [10, 20]
    factors = [1, 0.5, 2.5e-1])");
  EXPECT_EQ(recipe.seed, 7);
  EXPECT_EQ(recipe.shards, 8);
  EXPECT_EQ(recipe.precision, Precision::bfloat16);
  EXPECT_EQ(recipe.data.path, "a b/ü");
  EXPECT_FALSE(recipe.data.augment);
  EXPECT_EQ(recipe.optimizer.lr, 0.25);
  EXPECT_EQ(recipe.schedule.warm_up, 5'000'000'000);
  EXPECT_EQ(recipe.schedule.boundaries, (std::vector<std::int64_t>{10, 20}));
  EXPECT_EQ(recipe.schedule.factors, (std::vector<double>{1, 0.5, 0.25}));
}

TEST(Recipe, FieldsThatAreNotThereKeepTheirDefaults) {
  const Recipe recipe = read("");
  EXPECT_EQ(differences(Recipe{}, recipe), (Sets{"train.steps: 0 -> 1"}));
}

TEST(Recipe, AnIntegerIsANumberToo) {
  EXPECT_EQ(read("[optimizer]\nlr = 3").optimizer.lr, 3.0);
  EXPECT_EQ(read("", {"train.seconds=90"}).train.seconds, 90.0);
}

TEST(Recipe, EveryWordOfEveryChoiceIsReadAndPrinted) {
  Recipe recipe;
  int choices = 0;
  for (const Section& section : sections(recipe))
    for (const Field& field : section.fields) {
      const auto* choice = std::get_if<Choice>(&field.target);
      if (!choice) continue;
      ++choices;
      for (std::size_t i = 0; i < choice->words.size(); ++i) {
        choice->choose(i);
        EXPECT_EQ(choice->chosen(), i);
        EXPECT_EQ(text_of(field), "\"" + choice->words[i] + "\"");
      }
    }
  EXPECT_EQ(choices, 8);
  EXPECT_EQ(read("", {"optimizer.name=tensorflow_rmsprop"}).optimizer.name,
            OptimizerName::tensorflow_rmsprop);
}

TEST(Recipe, NamesOfFieldsAreUniqueAndAllHaveHelp) {
  Recipe recipe;
  std::vector<std::string> names;
  for (const Section& section : sections(recipe)) {
    EXPECT_FALSE(section.help.empty()) << section.name;
    for (const Field& field : section.fields) {
      names.push_back(field.name);
      EXPECT_FALSE(field.help.empty()) << field.name;
    }
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Recipe, EveryIntFieldTellsItsLimits) {
  Recipe recipe;
  for (const Section& section : sections(recipe))
    for (const Field& field : section.fields) {
      if (!std::holds_alternative<int*>(field.target)) continue;
      EXPECT_GE(field.range.low, 0) << field.name;
      EXPECT_LE(field.range.high, 1 << 30) << field.name;
    }
}

TEST(Recipe, TheDefaultOfEveryFieldIsAllowed) {
  Recipe recipe;
  for (const Section& section : sections(recipe))
    for (const Field& field : section.fields)
      EXPECT_EQ(refusal("", {field.name + "=" + text_of(field), "train.steps=1"}), "");
}

TEST(Recipe, WhatTheModelDoesNotUseIsAcceptedAllTheSame) {
  const Recipe recipe = read("[model]\nname = 'resnet20'\nwidth = 64\n[optimizer]\nbeta1 = 0.5");
  EXPECT_EQ(recipe.model.width, 64);
  EXPECT_EQ(recipe.optimizer.beta1, 0.5);
}

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
            {"my.toml:1:", "unknown section [optimiser]", "data, model, optimizer, schedule",
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
  expect_in(refusal("[data]\nbatch = 1e2"), {"found 100", "an integer"});
  expect_in(refusal("[data]\naugment = 1"), {"found 1", "true or false"});
  expect_in(refusal("[data]\npath = true"), {"found true", "a text"});
  expect_in(refusal("[optimizer]\nlr = 2024-01-01"), {"found a date", "a number above 0"});
  expect_in(refusal("[optimizer]\nname = 3"), {"found 3", "one of sgd, momentum"});
  expect_in(refusal("[schedule]\nboundaries = 3"), {"found 3", "a list of at most 100 integers"});
  expect_in(refusal("[schedule]\nboundaries = [1.5]"), {"found the list [1.5]"});
  expect_in(refusal("[schedule]\nfactors = ['a']"), {"found a list of something else"});
}

TEST(RecipeErrors, AValueOutOfRangeIsRefused) {
  expect_in(refusal("[optimizer]\nlr = -0.1"), {"optimizer.lr: found -0.1", "a number above 0"});
  for (const char* line :
       {"seed = -1", "shards = -1", "data.batch = 0", "data.batch = 3_000_000_000",
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
  expect_in(message, {"data.path", "a\\x1b[31mb", "without control characters"});
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_EQ(refusal("\"\\u001b\" = 1").find('\x1b'), std::string::npos);
}

TEST(RecipeErrors, LongValuesAreNotRepeatedWhole) {
  EXPECT_LT(refusal("[data]\nkind = '" + nested("x", 900) + "'").size(), 400U);
  expect_in(refusal("[data]\npath = '" + nested("x", 1001) + "'"), {"at most 1000 bytes"});
  expect_in(refusal("[schedule]\nfactors = [" + nested("1,", 101) + "]"), {"at most 100 numbers"});
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

TEST(RecipeSet, AnyFieldCanBeSetAndTheLastCounts) {
  const Recipe recipe =
      read("[optimizer]\nlr = 1", {"optimizer.lr=0.5", "optimizer.lr=0.01", "data.augment=false"});
  EXPECT_EQ(recipe.optimizer.lr, 0.01);
  EXPECT_FALSE(recipe.data.augment);
}

TEST(RecipeSet, WordsAndTextsNeedNoQuotes) {
  EXPECT_EQ(read("", {"model.name=resnet20"}).model.name, ModelName::resnet20);
  EXPECT_EQ(read("", {"model.name=\"resnet20\""}).model.name, ModelName::resnet20);
  EXPECT_EQ(read("", {"data.path=/a b/c=d"}).data.path, "/a b/c=d");
  for (const char* text : {"2024-01-01", "12", "true", "[1]", "a # b", "C:\\new", "ü"})
    EXPECT_EQ(read("", {"data.path=" + std::string(text)}).data.path, text);
  EXPECT_EQ(read("[data]\npath = 'a'", {"data.path="}).data.path, "");
}

TEST(RecipeSet, ListsNeedNoBrackets) {
  for (const char* text : {"schedule.boundaries=[10, 20]", "schedule.boundaries=10,20"})
    EXPECT_EQ(read("", {text}).schedule.boundaries, (std::vector<std::int64_t>{10, 20}));
  EXPECT_TRUE(
      read("[schedule]\nboundaries = [1]", {"schedule.boundaries="}).schedule.boundaries.empty());
}

TEST(RecipeSet, ErrorsRepeatTheFlag) {
  expect_in(refusal("", {"optimizer.lr=abc"}),
            {"--set optimizer.lr=abc: ", "found the text 'abc'", "a number above 0"});
  expect_in(refusal("", {"optimiser.lr=1"}),
            {"--set optimiser.lr=1: unknown key 'optimiser.lr'", "did you mean 'optimizer.lr'?"});
  expect_in(refusal("", {"model.name=resnet2"}), {"--set model.name=resnet2: ", "'resnet20'?"});
  expect_in(refusal("", {"optimizer.lr"}), {"--set optimizer.lr: ", "key=value"});
  expect_in(refusal("", {"optimizer=1"}), {"is a section"});
  expect_in(refusal("", {"=1"}), {"--set =1: unknown key ''"});
}

TEST(RecipeSet, OneFlagSetsOneField) {
  expect_in(refusal("", {"seed=1\nshards=2"}), {"seed: found the text"});
  expect_in(refusal("", {"data.path=a\nb"}), {"control characters"});
  expect_in(refusal("", {"data.path=\xff"}), {"not UTF-8"});
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
  expect_in(refusal("schedule.name = 'exponential'"), {"schedule.decay_steps is 0"});
  EXPECT_EQ(refusal("schedule = {name = 'exponential', decay_steps = 10}"), "");
  EXPECT_EQ(refusal("schedule.name = 'cosine'"), "");
  expect_in(refusal("schedule.name = 'cosine'", {"train.steps=0", "train.seconds=5"}),
            {"schedule.decay_steps is 0", "train.steps, or train.epochs"});
  expect_in(refusal("evaluate.averaged = true"), {"evaluate.averaged", "optimizer.average"});
  EXPECT_EQ(refusal("evaluate.averaged = true\noptimizer.average = 0.99"), "");
  expect_in(refusal("evaluate.metric = 'loss'"), {"evaluate.better has to be lower"});
  EXPECT_EQ(refusal("evaluate = {metric = 'loss', better = 'lower'}"), "");
}

TEST(RecipePrint, APrintedRecipeReadsBackTheSame) {
  const Recipe recipe =
      read("", {"optimizer.lr=1e-5", "optimizer.clip=12345678901234567890.0",
                "optimizer.epsilon=5e-324", "optimizer.momentum=0.1", "optimizer.weight_decay=-0.0",
                "data.path=a \"b\" \\ 'c' # ü", "schedule.factors=1e300,0.30000000000000004,2",
                "train.seconds=1e5", "seed=9223372036854775807", "precision=float16"});
  const std::string text = print_recipe(recipe);
  const Recipe again = parse_recipe(text, "printed.toml");
  EXPECT_EQ(differences(recipe, again), Sets{});
  EXPECT_EQ(print_recipe(again), text);
  EXPECT_EQ(again.optimizer.clip, 12345678901234567890.0);
  EXPECT_EQ(again.optimizer.epsilon, 5e-324);
  EXPECT_EQ(again.data.path, "a \"b\" \\ 'c' # ü");
  expect_in(text, {"[optimizer]", "lr = 1e-5\n", "seconds = 1e5\n", "weight_decay = 0\n"});
}

TEST(RecipePrint, TheLongestTextsAndListsReadBack) {
  Recipe recipe = read("");
  recipe.data.path = nested("\\", 1000);
  recipe.schedule.factors.assign(100, 0.30000000000000004);
  EXPECT_EQ(differences(recipe, parse_recipe(print_recipe(recipe), "printed.toml")), Sets{});
}

TEST(RecipePrint, EveryFieldIsPrintedWithWhatItMeans) {
  Recipe recipe = read("");
  const std::string printed = print_recipe(recipe);
  const std::string described = describe_fields();
  for (const Section& section : sections(recipe))
    for (const Field& field : section.fields) {
      expect_in(printed, {"\n" + field.name.substr(field.name.rfind('.') + 1) + " = "});
      expect_in(described, {"\n  " + field.name + " "});
      const std::string first_word = field.help.substr(0, field.help.find(' '));
      expect_in(printed, {"\n# " + first_word});
      expect_in(described, {" " + first_word});
    }
}

TEST(RecipePrint, HelpShowsDefaultsAndAllowedValuesInAlignedColumnsOf100) {
  const std::string text = describe_fields();
  expect_in(text, {"\n  optimizer.lr                      0.001            learning rate",
                   "\n  optimizer.name                    \"adam\"           the rule",
                   "number above 0)", "convnet, resnet20, resnet18, resnet50)",
                   "\n[schedule] A factor for the learning rate"});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
  }
}

TEST(RecipeDifferences, EachChangedFieldIsTold) {
  EXPECT_EQ(differences(read(""), read("")), Sets{});
  EXPECT_EQ(differences(
                read("", {"optimizer.lr=0.1"}),
                read("", {"optimizer.lr=0.01", "model.name=resnet20", "schedule.boundaries=1,2"})),
            (Sets{"model.name: \"convnet\" -> \"resnet20\"", "optimizer.lr: 0.1 -> 0.01",
                  "schedule.boundaries: [] -> [1, 2]"}));
}

TEST_F(RecipeFile, IsReadFromAPathAndNamedInErrors) {
  const std::string good = write("good.toml", "[train]\nsteps = 9");
  EXPECT_EQ(load_recipe(good).train.steps, 9);
  EXPECT_EQ(load_recipe(good, {"train.steps=8"}).train.steps, 8);
  const std::string bad = write("bad.toml", "[train]\nstep = 9");
  expect_in(refusal([&] { load_recipe(bad); }), {bad + ":2:1: ", "did you mean 'train.steps'?"});
}

TEST_F(RecipeFile, ThatIsMissingListsWhatIsBuiltIn) {
  expect_in(refusal([] { load_recipe("fashon"); }),
            {"no recipe 'fashon'", "cifar10, fashion, imagefolder, imagefolder50",
             "did you mean 'fashion'?"});
  expect_in(refusal([&] { load_recipe(folder() + "/none.toml"); }), {"no recipe", "cifar10"});
  expect_in(refusal([] { load_recipe(""); }), {"no recipe ''"});
}

TEST_F(RecipeFile, ThatCannotBeReadIsNamedWithTheReason) {
  expect_in(refusal([&] { load_recipe(folder()); }), {folder(), "directory"});
}

TEST_F(RecipeFile, OfMoreThanAMegabyteIsRefusedWhateverItsSize) {
  const std::string large = write("large.toml", nested("#\n", 600'000));
  expect_in(refusal([&] { load_recipe(large); }), {large, "more than 1048576 bytes"});
  expect_in(refusal([] { load_recipe("/dev/zero"); }), {"/dev/zero", "more than 1048576 bytes"});
}

TEST(BuiltInRecipes, AreTheFilesAndSayWhatTheyTrain) {
  const auto all = built_in_recipes();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].name, "cifar10");
  EXPECT_EQ(all[1].name, "fashion");
  EXPECT_EQ(all[2].name, "imagefolder");
  EXPECT_EQ(all[3].name, "imagefolder50");
  for (const BuiltIn& recipe : all) {
    EXPECT_NE(recipe.about.find(" on "), std::string::npos) << recipe.about;
    EXPECT_NE(recipe.about.front(), '#') << recipe.about;
  }
}

TEST(BuiltInRecipes, AllLoadOnceTheirDataIsNamed) {
  for (const BuiltIn& recipe : built_in_recipes())
    EXPECT_NO_THROW(load_recipe(recipe.name, {"data.path=a", "data.test_path=b"})) << recipe.name;
  EXPECT_NO_THROW(load_recipe("fashion"));
  expect_in(refusal([] { load_recipe("imagefolder"); }),
            {"imagefolder (built in):", "data.path is empty"});
}

TEST(BuiltInRecipes, Cifar10IsThePublishedTraining) {
  const Recipe recipe = load_recipe("cifar10");
  EXPECT_EQ(recipe.model.name, ModelName::resnet20);
  EXPECT_EQ(recipe.optimizer.name, OptimizerName::momentum);
  EXPECT_EQ(recipe.optimizer.momentum, 0.9);
  EXPECT_EQ(recipe.optimizer.lr, 0.1);
  EXPECT_EQ(recipe.optimizer.weight_decay, 1e-4);
  EXPECT_EQ(recipe.data.batch, 128);
  EXPECT_EQ(recipe.schedule.boundaries, (std::vector<std::int64_t>{32'000, 48'000}));
  EXPECT_EQ(recipe.train.steps, 64'000);
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
