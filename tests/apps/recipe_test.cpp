// Recipes: reading, --set, printing, comparing; those that are built in.

#include "recipe/recipe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/recipe_case.h"
#include "families/classify/recipe.h"
#include "families/seq2seq/recipe.h"
#include "recipe/family.h"

namespace {

using namespace lockstep;
using namespace lockstep::apps;
namespace fs = std::filesystem;

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

TEST(Recipe, TheNumberOfShardsIsFixedAndKnownToBeStatedOrNot) {
  Reading reading;
  EXPECT_EQ(parse_recipe("train.steps = 1", "my.toml", {}, &reading).shards, kDefaultShards);
  EXPECT_EQ(reading.stated, (std::set<std::string>{"train.steps"}));
  EXPECT_EQ(parse_recipe("train.steps = 1", "my.toml", {"shards=4"}, &reading).shards, 4);
  EXPECT_EQ(reading.stated, (std::set<std::string>{"shards", "train.steps"}));
}

TEST(Recipe, AsynchronousTrainingHasOneShardUnlessAnotherNumberIsStated) {
  EXPECT_EQ(read("strategy = 'async'").shards, 1);
  EXPECT_EQ(read("", {"strategy=async"}).shards, 1);
  EXPECT_EQ(read("shards = 4", {"strategy=async"}).shards, 4);
  EXPECT_EQ(read("strategy = 'async'", {"strategy=mirrored"}).shards, kDefaultShards);
  const Recipe kept = kept_recipe(print_recipe(read("")), "kept", {"strategy=async"});
  EXPECT_EQ(kept.shards, kDefaultShards) << "a printed recipe states it";
}

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
    factors = [1, 0.5, 2.5e-1]
    [init]
    freeze = ["backbone.*", 'a,b', ""])");
  EXPECT_EQ(recipe.seed, 7);
  EXPECT_EQ(recipe.shards, 8);
  EXPECT_EQ(recipe.precision, Precision::bfloat16);
  EXPECT_EQ(recipe.data.path, "a b/ü");
  EXPECT_FALSE(own<ClassifyRecipe>(recipe).augment);
  EXPECT_EQ(recipe.optimizer.lr, 0.25);
  EXPECT_EQ(recipe.schedule.warm_up, 5'000'000'000);
  EXPECT_EQ(recipe.schedule.boundaries, (std::vector<std::int64_t>{10, 20}));
  EXPECT_EQ(recipe.schedule.factors, (std::vector<double>{1, 0.5, 0.25}));
  EXPECT_EQ(recipe.init.freeze, (Sets{"backbone.*", "a,b", ""}));
}

TEST(Recipe, FieldsThatAreNotThereKeepTheirDefaults) {
  const Recipe recipe = read("");
  EXPECT_EQ(differences(Recipe{}, recipe), (Sets{"train.steps: 0 -> 1"}));
}

TEST(Recipe, AnIntegerIsANumberToo) {
  EXPECT_EQ(read("[optimizer]\nlr = 3").optimizer.lr, 3.0);
  EXPECT_EQ(read("", {"train.seconds=90"}).train.seconds, 90.0);
}

/// Calls `action` with every field of every family.
template <class Action>
void for_each_field(const Action& action) {
  for (const Family& family : families()) {
    Recipe recipe(family.name);
    for (const Section& section : sections(recipe)) {
      EXPECT_FALSE(section.help.empty()) << section.name;
      for (const Field& field : section.fields) action(family, field);
    }
  }
}

TEST(Recipe, EveryWordOfEveryChoiceIsReadAndPrinted) {
  std::set<std::string> choices;
  for_each_field([&](const Family&, const Field& field) {
    const auto* choice = std::get_if<Choice>(&field.target);
    if (!choice) return;
    choices.insert(field.name);
    for (std::size_t i = 0; i < choice->words.size(); ++i) {
      choice->choose(i);
      EXPECT_EQ(choice->chosen(), i);
      EXPECT_EQ(text_of(field), "\"" + choice->words[i] + "\"");
    }
  });
  EXPECT_EQ(choices.size(), 16U);
  EXPECT_EQ(read("", {"optimizer.name=tensorflow_rmsprop"}).optimizer.name,
            OptimizerName::tensorflow_rmsprop);
}

TEST(Recipe, NamesOfFieldsAreUniqueAndAllHaveHelp) {
  std::set<std::string> names;
  for_each_field([&](const Family& family, const Field& field) {
    EXPECT_TRUE(names.insert(family.name + " " + field.name).second) << field.name;
    EXPECT_FALSE(field.help.empty()) << field.name;
  });
}

TEST(Recipe, EveryIntFieldTellsItsLimits) {
  for_each_field([](const Family&, const Field& field) {
    if (!std::holds_alternative<int*>(field.target)) return;
    EXPECT_GE(field.range.low, 0) << field.name;
    EXPECT_LE(field.range.high, 1 << 30) << field.name;
  });
}

TEST(Recipe, TheDefaultOfEveryFieldIsAllowed) {
  for_each_field([](const Family& family, const Field& field) {
    EXPECT_EQ(refusal("family = '" + family.name + "'\ndata.path = 'a'",
                      {field.name + "=" + text_of(field), "train.steps=1", "data.path=a"}),
              "");
  });
}

TEST(Recipe, WhatTheModelDoesNotUseIsAcceptedAllTheSame) {
  const Recipe recipe = read("[model]\nname = 'resnet20'\nwidth = 64\n[optimizer]\nbeta1 = 0.5");
  EXPECT_EQ(own<ClassifyRecipe>(recipe).model.width, 64);
  EXPECT_EQ(recipe.optimizer.beta1, 0.5);
}

TEST(RecipeSet, AnyFieldCanBeSetAndTheLastCounts) {
  const Recipe recipe =
      read("[optimizer]\nlr = 1", {"optimizer.lr=0.5", "optimizer.lr=0.01", "data.augment=false"});
  EXPECT_EQ(recipe.optimizer.lr, 0.01);
  EXPECT_FALSE(own<ClassifyRecipe>(recipe).augment);
}

TEST(RecipeSet, WordsAndTextsNeedNoQuotes) {
  EXPECT_EQ(own<ClassifyRecipe>(read("", {"model.name=resnet20"})).model.name, ModelName::resnet20);
  EXPECT_EQ(own<ClassifyRecipe>(read("", {"model.name=\"resnet20\""})).model.name,
            ModelName::resnet20);
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

TEST(RecipeSet, ListsOfTextsNeedNoBracketsAndNoQuotes) {
  for (const char* text : {"init.freeze=['a.*', \"b\"]", "init.freeze=a.*,b", "init.freeze=a.*, b",
                           "init.freeze='a.*','b'"})
    EXPECT_EQ(read("", {text}).init.freeze, (Sets{"a.*", "b"})) << text;
  EXPECT_EQ(read("", {"init.freeze=1,true"}).init.freeze, (Sets{"1", "true"}));
  for (const char* text : {"init.freeze=", "init.freeze=[]"})
    EXPECT_TRUE(read("[init]\nfreeze = ['a']", {text}).init.freeze.empty()) << text;
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

TEST(RecipePrint, APrintedRecipeReadsBackTheSame) {
  const Recipe recipe = read(
      "", {"optimizer.lr=1e-5", "optimizer.clip=12345678901234567890.0", "optimizer.epsilon=5e-324",
           "optimizer.momentum=0.1", "optimizer.weight_decay=-0.0", "data.path=a \"b\" \\ 'c' # ü",
           "schedule.factors=1e300,0.30000000000000004,2", "train.seconds=1e5",
           "seed=9223372036854775807", "precision=float16", "init.freeze=['a \\ \"b\"', 'ü, *']"});
  const std::string text = print_recipe(recipe);
  const Recipe again = parse_recipe(text, "printed.toml");
  EXPECT_EQ(differences(recipe, again), Sets{});
  EXPECT_EQ(print_recipe(again), text);
  EXPECT_EQ(again.optimizer.clip, 12345678901234567890.0);
  EXPECT_EQ(again.optimizer.epsilon, 5e-324);
  EXPECT_EQ(again.data.path, "a \"b\" \\ 'c' # ü");
  EXPECT_EQ(again.init.freeze, (Sets{"a \\ \"b\"", "ü, *"}));
  expect_in(text, {"[optimizer]", "lr = 1e-5\n", "seconds = 1e5\n", "weight_decay = 0\n"});
}

TEST(RecipePrint, TheLongestTextsAndListsReadBack) {
  Recipe recipe = read("");
  recipe.data.path = nested("\\", 1000);
  recipe.schedule.factors.assign(100, 0.30000000000000004);
  recipe.init.freeze.assign(100, nested("\\", 10));
  EXPECT_EQ(differences(recipe, parse_recipe(print_recipe(recipe), "printed.toml")), Sets{});
}

TEST(RecipePrint, EveryFieldIsPrintedWithWhatItMeans) {
  const std::string described = describe_fields();
  for_each_field([&](const Family& family, const Field& field) {
    const std::string printed = print_recipe(Recipe(family.name));
    expect_in(printed, {"\n" + field.name.substr(field.name.rfind('.') + 1) + " = "});
    expect_in(described, {"\n  " + field.name + " "});
    const std::string first_word = field.help.substr(0, field.help.find(' '));
    expect_in(printed, {"\n# " + first_word});
    expect_in(described, {" " + first_word});
  });
}

TEST(RecipePrint, HelpShowsDefaultsAndAllowedValuesInAlignedColumnsOf100) {
  const std::string text = describe_fields();
  expect_in(text, {"\n  optimizer.lr                      0.001             learning rate",
                   "\n  optimizer.name                    \"adam\"            the optimizer",
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
  EXPECT_EQ(differences(read("", {"optimizer.lr=0.1"}),
                        read("", {"optimizer.lr=0.01", "model.name=resnet20",
                                  "schedule.boundaries=1,2", "init.freeze=a,b"})),
            (Sets{"model.name: \"convnet\" -> \"resnet20\"", "init.freeze: [] -> [\"a\", \"b\"]",
                  "optimizer.lr: 0.1 -> 0.01", "schedule.boundaries: [] -> [1, 2]"}));
}

TEST(RecipeDifferences, ListsOfTextsAreAmongTheValuesAsTheyArePrinted) {
  EXPECT_EQ(std::get<std::string>(values_of(read("", {"init.freeze=a,b"})).at("init.freeze")),
            "[\"a\", \"b\"]");
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
            {"no recipe 'fashon'", "cifar10, detect, fashion, imagefolder, imagefolder50",
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
  std::string names;
  for (const BuiltIn& recipe : all) names += recipe.name + " ";
  EXPECT_EQ(names,
            "chat cifar10 detect fashion imagefolder imagefolder50 ssd_mobilenet_v1 "
            "ssd_mobilenet_v2 translate translate_sgd ");
  for (const BuiltIn& recipe : all) {
    EXPECT_GT(recipe.about.size(), 20U) << recipe.about;
    EXPECT_NE(recipe.about.front(), '#') << recipe.about;
  }
}

TEST(BuiltInRecipes, AllLoadOnceTheirDataIsNamed) {
  for (const BuiltIn& recipe : built_in_recipes()) {
    Sets sets = {"data.path=a"};
    if (recipe.name.starts_with("imagefolder")) sets.push_back("data.test_path=b");
    EXPECT_NO_THROW(load_recipe(recipe.name, sets)) << recipe.name;
  }
  EXPECT_NO_THROW(load_recipe("fashion"));
  expect_in(refusal([] { load_recipe("imagefolder"); }),
            {"imagefolder (built in):", "data.path is empty"});
}

TEST(BuiltInRecipes, TranslateSgdIsTheOldTranslator) {
  const Recipe recipe = load_recipe("translate_sgd");
  EXPECT_EQ(recipe.optimizer.name, OptimizerName::sgd);
  EXPECT_EQ(recipe.optimizer.lr, 0.5);
  EXPECT_EQ(recipe.optimizer.clip, 5);
  EXPECT_EQ(recipe.schedule.name, ScheduleName::plateau);
  EXPECT_EQ(recipe.schedule.factor, 0.99);
  EXPECT_EQ(own<Seq2SeqRecipe>(recipe).text.source_lengths,
            (std::vector<std::int64_t>{5, 10, 20, 40}));
  EXPECT_EQ(own<Seq2SeqRecipe>(recipe).text.target_lengths,
            (std::vector<std::int64_t>{10, 15, 25, 50}));
}

TEST(BuiltInRecipes, Cifar10IsThePublishedTraining) {
  const Recipe recipe = load_recipe("cifar10");
  EXPECT_EQ(own<ClassifyRecipe>(recipe).model.name, ModelName::resnet20);
  EXPECT_EQ(recipe.optimizer.name, OptimizerName::momentum);
  EXPECT_EQ(recipe.optimizer.momentum, 0.9);
  EXPECT_EQ(recipe.optimizer.lr, 0.1);
  EXPECT_EQ(recipe.optimizer.weight_decay, 1e-4);
  EXPECT_EQ(recipe.data.batch, 128);
  EXPECT_EQ(recipe.schedule.boundaries, (std::vector<std::int64_t>{32'000, 48'000}));
  EXPECT_EQ(recipe.train.steps, 64'000);
}

}  // namespace
