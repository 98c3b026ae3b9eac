#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/manifest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace manifest_test {

using Json = nlohmann::ordered_json;

Manifest sample() {
  Manifest manifest{.updates = 36,
                    .loss_scale = 1024,
                    .good_steps = 7,
                    .seed = 18'446'744'073'709'551'615U,
                    .shards = 8,
                    .method = {{"optimizer", "adam"}, {"optimizer.lr", "0.1"}},
                    .time = 1'700'000'000,
                    .metrics = {{"test/accuracy", 0.1 + 0.2}, {"test/loss", NAN}},
                    .recipe = "seed = 1\n",
                    .lockstep_version = "0.1.0",
                    .torch_version = "2.15.0",
                    .files = {{"weights.safetensors", "weights", 12, std::string(64, 'a')}}};
  manifest.progress = {.step = 37,
                       .rows = 4736,
                       .seconds = 12.25,
                       .input = {1, 5},
                       .schedule = {.decays = 2, .recent = {1.0 / 3, 0.7}},
                       .window = {.steps = 3,
                                  .told = 2,
                                  .clipped = 1,
                                  .loss_sum = 1.1,
                                  .weight = 96,
                                  .learning_rate = 0.1 / 3,
                                  .gradient_norm = 1.0 / 7,
                                  .losses = {{"generator", {0.1 + 0.7, 32}}},
                                  .metrics = {{"generator/kl", {1.0 / 9, 32}}}},
                       .evaluated = {30, 0, 10.5},
                       .saved = {36, 1, 12},
                       .best = 0.875,
                       .best_step = 30,
                       .stale = 1};
  return manifest;
}

/// The message of the CorruptFile that reading `json` throws.
std::string problem(const std::string& json) {
  try {
    parse_manifest("folder/manifest.json", json);
  } catch (const CorruptFile& error) {
    return error.what();
  }
  return "";
}

TEST(Manifest, ReadsBackAsItWasBitForBit) {
  const Manifest written = sample();
  const Manifest read = parse_manifest("m", to_json(written));
  EXPECT_EQ(to_json(read), to_json(written));
  EXPECT_EQ(read.seed, written.seed);
  EXPECT_EQ(read.method, written.method);
  EXPECT_EQ(read.metrics.at("test/accuracy"), 0.1 + 0.2);
  EXPECT_TRUE(std::isnan(read.metrics.at("test/loss")));
  EXPECT_EQ(read.progress.schedule, written.progress.schedule);
  EXPECT_EQ(read.progress.window, written.progress.window);
  EXPECT_EQ(read.progress.input, written.progress.input);
  EXPECT_EQ(read.files.at(0).sha256, written.files.at(0).sha256);
}

TEST(Manifest, OneFromBeforeTheLastStepsFiguresWereKeptIsRead) {
  Json json = Json::parse(to_json(sample()));
  for (const char* key : {"told", "learning_rate", "gradient_norm", "losses", "metrics"})
    ASSERT_EQ(json["progress"]["window"].erase(key), 1U) << key;
  const StepWindow window = parse_manifest("m", json.dump()).progress.window;
  EXPECT_EQ(window.steps, 3);
  EXPECT_EQ(window.told, 3) << "the end of a training is not reported a second time";
  EXPECT_TRUE(std::isnan(window.learning_rate) && std::isnan(window.gradient_norm));
}

TEST(Manifest, WhatHoldsForSomeParametersIsAnotherVersionThatOlderProgramsRefuse) {
  Manifest manifest = sample();
  EXPECT_EQ(Json::parse(to_json(manifest))["version"], 1);
  EXPECT_FALSE(Json::parse(to_json(manifest)).contains("updates_of"));
  EXPECT_FALSE(Json::parse(to_json(manifest)).contains("held"));
  manifest.updates_of = {{"fc.weight", 12}, {"fc.bias", 0}};
  Json json = Json::parse(to_json(manifest));
  EXPECT_EQ(json["version"], 2);
  EXPECT_EQ(parse_manifest("m", json.dump()).updates_of, manifest.updates_of);
  json["updates_of"]["fc.bias"] = -1;
  EXPECT_NE(problem(json.dump()).find("manifest.updates_of.fc.bias"), std::string::npos);
  manifest.updates_of.clear();
  manifest.held = {"fc.weight", "fc.bias"};
  json = Json::parse(to_json(manifest));
  EXPECT_EQ(json["version"], 2);
  EXPECT_EQ(parse_manifest("m", json.dump()).held, manifest.held);
  manifest.held.clear();
  manifest.changed = {{"optimizer.beta1", "0.5"}};
  json = Json::parse(to_json(manifest));
  EXPECT_EQ(json["version"], 2);
  EXPECT_EQ(parse_manifest("m", json.dump()).changed, manifest.changed);
  json["held"][0] = 3;
  EXPECT_NE(problem(json.dump()).find("manifest.held"), std::string::npos);
}

TEST(Manifest, OlderWeightsAreAnotherVersionThatOlderProgramsRefuse) {
  Manifest manifest = sample();
  manifest.held = {"fc.bias"};
  manifest.files.push_back({"older.safetensors", "older", 12, std::string(64, 'b'), 512});
  Json json = Json::parse(to_json(manifest));
  EXPECT_EQ(json["version"], 3);
  const Manifest read = parse_manifest("m", json.dump());
  EXPECT_EQ(read.files.at(1).holds, "older");
  EXPECT_EQ(read.files.at(1).loss_scale, 512);
  EXPECT_EQ(to_json(read), to_json(manifest));
  EXPECT_FALSE(json["files"][0].contains("loss_scale"));
  json["files"][1].erase("loss_scale");
  EXPECT_NE(problem(json.dump()).find("manifest.files.loss_scale"), std::string::npos);
}

TEST(Manifest, KeepsHowLateTheStepsSinceTheLastReportWere) {
  Manifest manifest = sample();
  EXPECT_EQ(to_json(manifest).find("staleness"), std::string::npos);
  manifest.progress.window.staleness.steps = {{0, 1}, {3, 2}};
  Json json = Json::parse(to_json(manifest));
  EXPECT_EQ(json["progress"]["window"]["staleness"].dump(), "[[0,1],[3,2]]");
  const StepWindow window = parse_manifest("m", json.dump()).progress.window;
  EXPECT_EQ(window, manifest.progress.window);
  EXPECT_DOUBLE_EQ(window.staleness.mean(), 2);
  EXPECT_EQ(window.staleness.most(), 3);
  for (const char* wrong : {"3", "[3]", "[3, -1]", "[\"3\", 1]"}) {
    json["progress"]["window"]["staleness"][0] = Json::parse(wrong);
    EXPECT_NE(problem(json.dump()).find("manifest.progress.window.staleness"), std::string::npos)
        << wrong;
  }
}

TEST(Manifest, HasNoDeviceCount) {
  EXPECT_EQ(to_json(sample()).find("device"), std::string::npos);
  EXPECT_EQ(to_json(sample()).find("tower"), std::string::npos);
}

TEST(Manifest, NamesTheFieldThatIsMissing) {
  for (const char* key : {"progress", "updates", "seed", "shards", "files", "metrics", "recipe"}) {
    Json json = Json::parse(to_json(sample()));
    json.erase(key);
    EXPECT_NE(problem(json.dump()).find(std::string("manifest.") + key), std::string::npos) << key;
  }
}

TEST(Manifest, NamesTheFieldThatIsNotWhatItShouldBe) {
  const auto with = [](const char* pointer, const Json& value) {
    Json json = Json::parse(to_json(sample()));
    json[Json::json_pointer(pointer)] = value;
    return problem(json.dump());
  };
  EXPECT_NE(with("/progress/step", -1).find("manifest.progress.step"), std::string::npos);
  EXPECT_NE(with("/progress/step", 1.5).find("manifest.progress.step"), std::string::npos);
  EXPECT_NE(with("/progress/input", "x").find("manifest.progress.input"), std::string::npos);
  EXPECT_NE(with("/files/0/name", "../x").find("manifest.files.name"), std::string::npos);
  EXPECT_NE(with("/files/0/holds", "x").find("manifest.files.holds"), std::string::npos);
  EXPECT_NE(with("/files/0/sha256", "12").find("manifest.files.sha256"), std::string::npos);
  EXPECT_NE(with("/method/optimizer", 1).find("manifest.method.optimizer"), std::string::npos);
  EXPECT_NE(with("/version", 4).find("newer"), std::string::npos);
  EXPECT_NE(with("/shards", 1'000'000'000'000).find("manifest.shards"), std::string::npos);
}

TEST(Manifest, RowsMayBeUnknownAndOlderOnesHaveNoMethod) {
  Manifest manifest = sample();
  manifest.progress.rows.reset();
  Json json = Json::parse(to_json(manifest));
  EXPECT_TRUE(json["progress"]["rows"].is_null());
  json.erase("method");
  const Manifest read = parse_manifest("m", json.dump());
  EXPECT_FALSE(read.progress.rows);
  EXPECT_TRUE(read.method.empty());
}

TEST(Manifest, SaysAtWhichByteItStopsBeingJson) {
  const std::string text = to_json(sample());
  EXPECT_NE(problem(text.substr(0, 40)).find("folder/manifest.json: at byte 4"), std::string::npos);
  EXPECT_NE(problem(""), "");
  EXPECT_NE(problem(R"({"best": 1e999})"), "") << "a number that no double is";
}

}  // namespace manifest_test
}  // namespace lockstep
