// What a new training begins from: which weights are taken, and what is said of the others.

#include "init_weights.h"

#include <gtest/gtest.h>
#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include <fstream>

#include "apps/recipe_case.h"
#include "train/small_job.h"

namespace lockstep::apps {
namespace init_weights_test {

using testing::new_folder;
using testing::SmallJob;

/// Parameters and buffers of a state, as an export has them.
std::vector<NamedTensor> weights_in(const State& state) {
  std::vector<NamedTensor> all = state.parameters;
  all.insert(all.end(), state.buffers.begin(), state.buffers.end());
  return all;
}

InitialWeights weights_of(const std::vector<NamedTensor>& tensors) {
  InitialWeights weights{.from = "'it'"};
  for (const NamedTensor& tensor : tensors) weights.tensors[tensor.name] = tensor.value;
  return weights;
}

bool equal(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  return std::ranges::equal(a, b, [](const NamedTensor& one, const NamedTensor& other) {
    return one.name == other.name && torch::equal(one.value, other.value);
  });
}

/// A job after some steps.
std::unique_ptr<Job> trained() {
  auto job = SmallJob{}.make();
  for (int step = 0; step < 12; ++step) job->step();
  return job;
}

double accuracy(Job& job) {
  return job.evaluate(0, [](auto, auto) { return true; })->metrics.at("accuracy");
}

TEST(InitWeights, OfAFileGiveTheSameModelBuffersAndAveragesIncluded) {
  const auto source = trained();
  const State state = source->strategy().state();
  const std::string path = new_folder("init") + "/model.safetensors";
  save_tensors(path, weights_in(state));
  const auto job = SmallJob{.devices = 2}.make();
  ASSERT_FALSE(equal(state.parameters, job->strategy().state().parameters));
  const InitialWeights weights = read_initial({.weights = path, .freeze = {}, .checksum = ""});
  EXPECT_EQ(take_weights(job->strategy(), weights, {}),
            "init.weights: 9 of 9 tensors of '" + path + "' taken");
  const State taken = job->strategy().state();
  EXPECT_TRUE(equal(state.parameters, taken.parameters));
  EXPECT_TRUE(equal(state.buffers, taken.buffers));
  EXPECT_TRUE(equal(state.parameters, taken.averages)) << "they begin at the weights";
  EXPECT_EQ(taken.steps, 0);
  EXPECT_EQ(accuracy(*source), accuracy(*job));
}

TEST(InitWeights, OfACheckpointAreItsAverages) {
  const State state = trained()->strategy().state();
  const std::string path = new_folder("init") + "/step-000000012";
  save_checkpoint(path, state);
  const InitialWeights weights = read_initial({.weights = path, .freeze = {}, .checksum = ""});
  const auto job = SmallJob{}.make();
  EXPECT_EQ(take_weights(job->strategy(), weights, {}),
            "init.weights: 9 of 9 tensors of the averaged weights of '" + path + "' taken");
  EXPECT_TRUE(equal(state.averages, job->strategy().state().parameters));
  EXPECT_TRUE(equal(state.buffers, job->strategy().state().buffers));
}

TEST(InitWeights, OfOtherTypesAreConverted) {
  const auto job = SmallJob{}.make();
  for (const auto type : {torch::kFloat16, torch::kBFloat16, torch::kFloat64}) {
    const torch::Tensor value = torch::rand({3, 16}).to(type);
    take_weights(job->strategy(), weights_of({{"two.weight", value}}), {});
    const torch::Tensor taken = job->strategy().module().named_parameters()["two.weight"];
    EXPECT_EQ(taken.scalar_type(), torch::kFloat32);
    EXPECT_TRUE(torch::equal(taken, value.to(torch::kFloat32)));
  }
}

TEST(InitWeights, WhatDoesNotFitIsToldAndLeftAsItBegins) {
  const auto job = SmallJob{}.make();
  const State before = job->strategy().state();
  std::vector<NamedTensor> tensors = {{"one.weight", torch::ones({16, 6})},
                                      {"two.weight", torch::ones({4, 16})},
                                      {"two.bias", torch::ones({})}};
  for (int i = 0; i < 6; ++i) tensors.push_back({"head." + std::to_string(i), torch::ones({1})});
  EXPECT_EQ(take_weights(job->strategy(), weights_of(tensors), {}),
            "init.weights: 1 of 9 tensors of 'it' taken; not in the model: head.0, head.1, head.2, "
            "head.3 and 2 more; other shape: two.bias (one value, the model has 3), two.weight "
            "(4x16, the model has 3x16); left as they begin: norm.bias, norm.num_batches_tracked, "
            "norm.running_mean, norm.running_var and 4 more");
  for (std::size_t i = 0; const NamedTensor& parameter : job->strategy().state().parameters) {
    const torch::Tensor& began = before.parameters[i++].value;
    EXPECT_TRUE(torch::equal(parameter.value,
                             parameter.name == "one.weight" ? torch::ones_like(began) : began))
        << parameter.name;
  }
}

TEST(InitWeights, ThatDoNotFitAtAllAreRefusedWithNamesOfBothSides) {
  const auto job = SmallJob{}.make();
  std::vector<NamedTensor> tensors = {{"one.weight", torch::ones({2})}};
  for (int i = 0; i < 6; ++i) tensors.push_back({"head." + std::to_string(i), torch::ones({1, 2})});
  const std::string message =
      refusal([&] { take_weights(job->strategy(), weights_of(tensors), {"backbone."}); });
  expect_in(message, {"init.weights: nothing in 'it' fits the model by name and shape",
                      "It has head.0 (1x2), head.1 (1x2), head.2 (1x2)",
                      "the model has norm.bias (16), norm.num_batches_tracked (one value), "
                      "norm.running_mean (16)"});
  expect_in(refusal([&] { take_weights(job->strategy(), weights_of({}), {}); }),
            {"It has nothing"});
}

TEST(InitWeights, APrefixIsTriedWhenNoNameFitsAsItIs) {
  const auto job = SmallJob{}.make();
  const std::vector<std::string> prefixes = {"head.", "two.", "one."};
  const std::string note = take_weights(
      job->strategy(), weights_of({{"weight", torch::ones({3, 16})}, {"scale", torch::ones({1})}}),
      prefixes);
  expect_in(note, {"1 of 2 tensors of 'it' taken, with 'two.' before their names",
                   "not in the model: scale;"});
  EXPECT_EQ(take_weights(job->strategy(),
                         weights_of({{"two.weight", torch::ones({3, 16})},
                                     {"weight", torch::ones({3, 16})}}),
                         prefixes)
                .find("before their names"),
            std::string::npos);
}

TEST(InitWeights, AreKnownByTheirChecksum) {
  const std::string folder = new_folder("init");
  const std::string path = folder + "/model.safetensors";
  save_tensors(path, {{"a", torch::ones({2})}});
  save_checkpoint(folder + "/step-000000001", trained()->strategy().state());
  for (const std::string& from : {path, folder + "/step-000000001"}) {
    const std::string checksum = checksum_of(from);
    EXPECT_EQ(checksum.size(), 64U);
    InitRecipe init{.weights = from, .freeze = {}, .checksum = checksum};
    EXPECT_EQ(read_initial(init).checksum, checksum);
    init.checksum[0] = init.checksum[0] == '0' ? '1' : '0';
    expect_in(refusal([&] { read_initial(init); }),
              {"init.checksum is " + init.checksum, from, "has " + checksum});
  }
}

TEST(InitWeights, ThatCannotBeReadAreNamedWithTheField) {
  const std::string folder = new_folder("init");
  std::ofstream(folder + "/model.pth") << "this is no safetensors file";
  for (const std::string name : {"/model.pth", "/none", ""})
    expect_in(
        refusal([&] { read_initial({.weights = folder + name, .freeze = {}, .checksum = ""}); }),
        {"init.weights: ", folder + name});
  EXPECT_TRUE(read_initial({}).from.empty());
}

TEST(InitFreeze, HoldsWhatMatchesOverStepsAndStates) {
  const auto job = SmallJob{}.make();
  freeze(job->strategy(), {"one.*", "norm.weight"});
  const State before = job->strategy().state();
  EXPECT_EQ(before.held, (Sets{"one.weight", "one.bias", "norm.weight"}));
  for (int step = 0; step < 3; ++step) job->step();
  const State after = job->strategy().state();
  for (std::size_t i = 0; i < after.parameters.size(); ++i) {
    const auto& [name, value] = after.parameters[i];
    EXPECT_EQ(torch::equal(value, before.parameters[i].value),
              std::ranges::count(before.held, name) == 1)
        << name;
  }
}

TEST(InitFreeze, PatternsThatMatchNothingOrEverythingAreRefused) {
  const auto job = SmallJob{}.make();
  expect_in(refusal([&] { freeze(job->strategy(), {"backbone.*"}); }),
            {"init.freeze: 'backbone.*' matches no parameter", "one.weight, one.bias"});
  expect_in(refusal([&] { freeze(job->strategy(), {"*"}); }), {"nothing is left to train"});
}

/// The recipe `text`, resumed from a checkpoint of the recipe `then`.
Recipe resumed(const std::string& then, const std::string& text) {
  FoundCheckpoint found{.path = "runs/a/checkpoints/step-1", .checkpoint = {}};
  found.checkpoint.manifest.recipe = print_recipe(read(then));
  Reading reading;
  Recipe recipe = parse_recipe(text + "\ntrain.steps = 2\n", "my.toml", {}, &reading);
  keep_init(found, reading.stated, recipe);
  return recipe;
}

TEST(InitOnResume, IsThatOfTheCheckpoint) {
  const std::string then = "init = {weights = 'a', freeze = ['b.*'], checksum = 'c'}";
  for (const std::string text : {"", "init.weights = 'a'", "init.checksum = ''"}) {
    const InitRecipe init = resumed(then, text).init;
    EXPECT_EQ(init.weights, "a");
    EXPECT_EQ(init.freeze, Sets{"b.*"});
    EXPECT_EQ(init.checksum, "c");
  }
}

TEST(InitOnResume, CannotChange) {
  const std::string then = "init = {weights = 'a', freeze = ['b.*'], checksum = 'c'}";
  expect_in(refusal([&] { resumed(then, "init.weights = 'd'"); }),
            {"init.weights cannot change on resume (\"a\" -> \"d\")", "runs/a/checkpoints/step-1"});
  expect_in(refusal([&] { resumed(then, "init.freeze = []"); }),
            {"init.freeze cannot change on resume ([\"b.*\"] -> [])"});
  expect_in(refusal([&] { resumed(then, "init = {weights = 'a', checksum = 'd'}"); }),
            {"init.checksum cannot change on resume"});
  expect_in(refusal([&] { resumed("", "init.weights = 'd'"); }), {"init.weights cannot change"});
}

}  // namespace init_weights_test
}  // namespace lockstep::apps
