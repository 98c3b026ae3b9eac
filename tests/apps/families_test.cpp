// What belongs to one family of recipes: its fields, its kinds of data, its metrics.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "apps/recipe_case.h"
#include "families/classify/recipe.h"
#include "families/seq2seq/recipe.h"
#include "recipe/family.h"

namespace {

using namespace lockstep;
using namespace lockstep::apps;

const std::string kTexts = "family = 'seq2seq'\ndata.kind = 'gettext'\n";

/// The notes of a recipe, which has to be read without an error.
Sets notes(const std::string& text) {
  Reading reading;
  parse_recipe(text + "\n[train]\nsteps = 1\n", "my.toml", {}, &reading);
  return reading.notes;
}

TEST(Families, HaveNamesKindsMetricsAndAFirstOfEachAsDefault) {
  for (const Family& family : families()) {
    EXPECT_FALSE(family.about.empty());
    ASSERT_FALSE(family.kinds.empty());
    ASSERT_FALSE(family.metrics.empty());
    const Recipe recipe(family.name);
    EXPECT_EQ(recipe.family, family.name);
    EXPECT_EQ(recipe.data.kind, family.kinds.front().name);
    EXPECT_EQ(metric_of(recipe).name, family.metrics.front().name);
  }
  expect_in(refusal([] { Recipe recipe("detectt"); }), {"no family 'detectt'"});
}

TEST(Families, EveryBuiltInRecipeSaysItsOwnAndHasNoNotes) {
  for (const BuiltIn& recipe : built_in_recipes()) {
    Reading reading;
    Sets sets = {"data.path=a"};
    if (recipe.name.starts_with("imagefolder")) sets.push_back("data.test_path=b");
    EXPECT_EQ(load_recipe(recipe.name, sets, &reading).family, recipe.family);
    EXPECT_TRUE(reading.stated.contains("family")) << recipe.name;
    EXPECT_EQ(reading.notes, Sets{}) << recipe.name;
  }
}

TEST(Families, CopiesOfARecipeAreApart) {
  const Recipe first = read("", {"model.width=8"});
  Recipe second = first;
  std::any_cast<ClassifyRecipe&>(second.own).model.width = 9;
  EXPECT_EQ(own<ClassifyRecipe>(first).model.width, 8);
  EXPECT_EQ(differences(first, second), (Sets{"model.width: 8 -> 9"}));
}

TEST(Families, RecipesOfTwoDifferInTheFamilyAndInWhatBothHave) {
  EXPECT_EQ(
      differences(read(""), read(kTexts, {"optimizer.lr=1"})),
      (Sets{"family: \"classify\" -> \"seq2seq\"", "data.kind: \"fashion_mnist\" -> \"gettext\"",
            "optimizer.lr: 0.001 -> 1", "evaluate.metric: \"accuracy\" -> \"loss\""}));
}

TEST(Families, AFieldOfAnotherIsRefusedWithThoseThatReadIt) {
  expect_in(refusal("[seq2seq]\nlayers = 3"),
            {"my.toml:2:1: seq2seq.layers is read by the family seq2seq", "family is classify"});
  expect_in(refusal("", {"seq2seq.layers=3"}),
            {"--set seq2seq.layers=3: seq2seq.layers is read by the family seq2seq"});
  expect_in(refusal(kTexts + "data.augment = false"),
            {"my.toml:3:", "data.augment is read by the family classify", "family is seq2seq"});
  expect_in(refusal("data.target_path = 'a'"), {"data.target_path is read by the family seq2seq"});
  expect_in(refusal("", {"family=seq2seq", "data.kind=gettext", "model.width=3"}),
            {"model.width is read by the family classify"});
}

TEST(Families, AFieldOfAnotherIsRefusedBehindSetEvenWithItsDefault) {
  expect_in(refusal("", {"seq2seq.layers=2"}), {"read by the family seq2seq"});
}

TEST(Families, ABadValueOfAFieldOfAnotherIsToldAsSuch) {
  expect_in(refusal("[seq2seq]\nlayers = 'many'"), {"my.toml:2:1: seq2seq.layers: found the text"});
}

TEST(Families, AnEmptySectionOfAnotherIsRefused) {
  expect_in(refusal("[seq2seq]"), {"my.toml:1:", "[seq2seq] is a section of the family seq2seq"});
  expect_in(refusal(kTexts + "[model]"), {"[model] is a section of the family classify"});
}

TEST(Families, WordsOfAnotherAreToldWithIt) {
  expect_in(refusal("data.kind = 'tsv'"),
            {"data.kind: found the text 'tsv'", "one of fashion_mnist, cifar10, folder",
             "the family seq2seq has it"});
  expect_in(refusal(kTexts, {"evaluate.metric=accuracy"}),
            {"--set evaluate.metric=accuracy: evaluate.metric: ", "one of loss, exact, bleu",
             "the family classify has it"});
  expect_in(refusal("evaluate.metric = 'nonsense'"), {"one of accuracy, loss"});
}

TEST(Families, TheLastOneNamedCountsWhereverItStands) {
  EXPECT_EQ(read("data.kind = 'gettext'\nfamily = 'seq2seq'").data.kind, "gettext");
  EXPECT_EQ(read("", {"data.kind=gettext", "family=seq2seq"}).family, "seq2seq");
  expect_in(refusal("family = 'seq2seq'\ndata.kind = 'gettext'", {"family=classify"}),
            {"data.kind: found the text 'gettext'", "the family seq2seq has it"});
}

TEST(Families, FieldsThatTheKindOfDataDoesNotReadAreRefused) {
  expect_in(
      refusal("data.size = 64"),
      {"my.toml:1:6: data.size is read only when data.kind is folder, and it is fashion_mnist"});
  expect_in(refusal("", {"data.test_path=a"}),
            {"--set data.test_path=a: data.test_path is read only"});
  expect_in(refusal("family = 'seq2seq'\ndata = {kind = 'tsv', path = 'a', target_path = 'b'}"),
            {"data.target_path is read only when data.kind is parallel"});
  EXPECT_EQ(refusal("data.size = 224\ndata.test_path = ''"), "");
}

TEST(Families, AMetricKnowsItsDirection) {
  EXPECT_TRUE(metric_of(read("")).higher_is_better);
  EXPECT_FALSE(metric_of(read("evaluate.metric = 'loss'")).higher_is_better);
  EXPECT_FALSE(metric_of(read(kTexts)).higher_is_better);
  EXPECT_TRUE(metric_of(read(kTexts, {"evaluate.metric=bleu"})).higher_is_better);
}

TEST(Families, EvaluateBetterIsToBeRemoved) {
  const Sets words = {"evaluate.better: remove it", "loss knows that lower is better"};
  expect_in(refusal("evaluate = {metric = 'loss', better = 'higher'}"), words);
  expect_in(refusal("evaluate.metric = 'loss'", {"evaluate.better=lower"}), words);
  const Sets told = notes("evaluate = {metric = 'loss', better = 'lower'}");
  ASSERT_EQ(told.size(), 1U);
  expect_in(told.front(), words);
}

/// As an older program printed it: with the fields of all families.
std::string old_text(const std::string& recipe, const std::string& better) {
  std::string text = print_recipe(load_recipe(recipe));
  const std::size_t at = text.find("[evaluate]\n") + 11;
  text.insert(at, "better = '" + better + "'\n");
  std::set<std::string> printed;  // some fields belong to several families
  for (const Family& family : families()) {
    Recipe other(family.name);
    Recipe own(load_recipe(recipe).family);
    const auto known = sections(own);
    for (const Section& section : sections(other)) {
      std::string fields;
      for (const Field& field : section.fields)
        if (!find_field(known, field.name) && printed.insert(field.name).second)
          fields += field.name.substr(field.name.find('.') + 1) + " = " + text_of(field) + "\n";
      if (fields.empty()) continue;
      const std::string head = "[" + section.name + "]\n";
      const std::size_t there = text.find(head);
      if (there == std::string::npos)
        text += head + fields;
      else
        text.insert(there + head.size(), fields);
    }
  }
  return text;
}

TEST(Families, ARecipePrintedWithAllFamiliesIsReadWithNotes) {
  for (const char* name : {"fashion", "translate"}) {
    const std::string text = old_text(name, "higher");
    Reading reading;
    const Recipe recipe = parse_recipe(text, "old.toml", {}, &reading);
    EXPECT_EQ(differences(recipe, load_recipe(name)), Sets{});
    ASSERT_EQ(reading.notes.size(), 2U);
    expect_in(reading.notes.front(), {"evaluate.better: remove it"});
    expect_in(reading.notes.back(),
              {"old.toml: the family " + recipe.family + " does not read ", "can be removed"});
    EXPECT_EQ(differences(kept_recipe(text, "old.toml"), recipe), Sets{});
  }
  EXPECT_EQ(notes(""), Sets{});
}

TEST(Families, TheRecipeOfACheckpointIsReadWhateverOtherFieldsItHas) {
  const std::string text = "[train]\nsteps = 1\n[seq2seq]\nlayers = 7\n[data]\nsize = 64\n";
  EXPECT_EQ(kept_recipe(text, "kept").train.steps, 1);
  expect_in(refusal([] { kept_recipe("nonsense = 1", "kept"); }), {"kept:1:1: unknown key"});
}

TEST(Families, ARecipePrintsTheFieldsOfItsOwnOnly) {
  const std::string images = print_recipe(read("")), texts = print_recipe(read(kTexts));
  for (const char* section : {"[text]", "[seq2seq]", "[decode]"}) {
    EXPECT_EQ(images.find(section), std::string::npos) << section;
    EXPECT_NE(texts.find(section), std::string::npos) << section;
  }
  EXPECT_EQ(texts.find("[model]"), std::string::npos);
  EXPECT_FALSE(values_of(read("")).contains("seq2seq.layers"));
  EXPECT_FALSE(values_of(read("")).contains("data.size")) << "of folders only";
  EXPECT_FALSE(values_of(read("")).contains("async.delay"));
  EXPECT_TRUE(values_of(read("", {"strategy=async"})).contains("async.delay"));
}

TEST(Families, ABatchGrowsWhereverItsSizeIsSaid) {
  Recipe recipe = read(kTexts, {"data.batch=3", "text.batch_tokens=50"});
  grow_batch(recipe, 4);
  EXPECT_EQ(recipe.data.batch, 12);
  EXPECT_EQ(own<Seq2SeqRecipe>(recipe).text.batch_tokens, 200);
}

TEST(Families, HelpShowsTheFieldsOfEachApart) {
  const std::string text = describe_fields();
  const std::size_t classify = text.find("family classify, which puts images into classes:"),
                    seq2seq = text.find("family seq2seq, which ");
  EXPECT_LT(text.find("[optimizer]"), classify);
  EXPECT_LT(classify, text.find("[model]"));
  EXPECT_LT(text.find("[model]"), seq2seq);
  EXPECT_LT(seq2seq, text.find("[decode]"));
}

TEST(Families, ThePageOfTheDocumentationIsWhatTheProgramWrites) {
  std::ifstream file(LOCKSTEP_RECIPES_PAGE);
  std::stringstream page;
  page << file.rdbuf();
  const std::string mark = "<!-- From here on: lockstep recipes --markdown -->\n\n";
  const std::size_t at = page.str().find(mark);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(page.str().substr(at + mark.size()), markdown_page())
      << "write it anew: lockstep recipes --markdown";
}

}  // namespace
