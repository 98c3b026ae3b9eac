#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/trace.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace trace_test {

using namespace lockstep;
using nlohmann::json;

json parsed(const Trace& trace) { return json::parse(trace.json()); }

std::vector<json> events(const Trace& trace, const std::string& phase) {
  std::vector<json> result;
  const json all = parsed(trace);
  for (const json& each : all["traceEvents"])
    if (each["ph"] == phase) result.push_back(each);
  return result;
}

std::string name_of(const Trace& trace, const std::string& kind, const json& span) {
  for (const json& each : events(trace, "M"))
    if (each["name"] == kind && each["pid"] == span["pid"] &&
        (kind == "process_name" || each["tid"] == span["tid"]))
      return each["args"]["name"];
  return "";
}

TEST(Trace, ASpanIsACompleteEventInMicroseconds) {
  Trace trace;
  trace.add("sim:1", "compute", "forward", Seconds(0.5), Seconds(0.75));
  const auto spans = events(trace, "X");
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0]["name"], "forward");
  EXPECT_EQ(spans[0]["ts"], 500000.0);
  EXPECT_EQ(spans[0]["dur"], 250000.0);
  EXPECT_EQ(name_of(trace, "process_name", spans[0]), "sim:1");
  EXPECT_EQ(name_of(trace, "thread_name", spans[0]), "compute");
}

TEST(Trace, AnEmptyTraceIsATrace) { EXPECT_TRUE(parsed(Trace())["traceEvents"].empty()); }

TEST(Trace, TheSameTrackOfTwoDevicesIsTwoTracks) {
  Trace trace;
  trace.add("cpu:0", "compute", "a", Seconds(0), Seconds(1));
  trace.add("cpu:1", "compute", "b", Seconds(0), Seconds(1));
  trace.add("cpu:0", "reduce", "c", Seconds(1), Seconds(2));
  const auto spans = events(trace, "X");
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_NE(spans[0]["pid"], spans[1]["pid"]);
  EXPECT_NE(spans[0]["tid"], spans[1]["tid"]);
  EXPECT_EQ(spans[0]["pid"], spans[2]["pid"]);
  EXPECT_NE(spans[0]["tid"], spans[2]["tid"]);
}

TEST(Trace, TheOrderIsThatOfTimeNotOfArrival) {
  Trace forwards, backwards;
  for (int i = 0; i < 5; ++i) {
    forwards.add("cpu:0", "t", std::to_string(i), Seconds(i), Seconds(i + 1));
    backwards.add("cpu:0", "t", std::to_string(4 - i), Seconds(4 - i), Seconds(5 - i));
  }
  for (Trace* each : {&forwards, &backwards})
    each->add("cpu:0", "t", "outer", Seconds(0), Seconds(5));
  EXPECT_EQ(forwards.json(), backwards.json());
  EXPECT_EQ(events(forwards, "X")[0]["name"], "outer");
}

TEST(Trace, AnyNameIsEscaped) {
  const std::string name = "a \"quoted\" \\ name,\nwith \t, \x01 and \u00fc";
  Trace trace;
  trace.add(name, name, name, Seconds(0), Seconds(1));
  trace.add("cpu:0", "t", "not UTF-8: \xff", Seconds(1), Seconds(2));
  const auto spans = events(trace, "X");
  EXPECT_EQ(spans[0]["name"], name);
  EXPECT_EQ(name_of(trace, "process_name", spans[0]), name);
  EXPECT_EQ(name_of(trace, "thread_name", spans[0]), name);
}

TEST(Trace, ThreadsMayAddAtOnce) {
  Trace trace;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&trace, t] {
        for (int i = 0; i < 100; ++i)
          trace.add("cpu:" + std::to_string(t), "t", "s", Seconds(i), Seconds(i + 1));
      });
  }
  EXPECT_EQ(events(trace, "X").size(), 400U);
}

TEST(Trace, IsWrittenAndReplacesWhatWasThere) {
  const std::string path = ::testing::TempDir() + "trace_test.json";
  Trace trace;
  trace.write(path);
  trace.add("cpu:0", "t", "s", Seconds(0), Seconds(1));
  trace.write(path);
  std::ifstream file(path);
  EXPECT_EQ(json::parse(file), parsed(trace));
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
  std::filesystem::remove(path);
}

TEST(Trace, AnUnwritablePathIsAnIoErrorWithThePath) {
  try {
    Trace().write("/nowhere/at/all/trace.json");
    FAIL() << "written";
  } catch (const IoError& error) {
    EXPECT_NE(error.path.find("/nowhere/at/all/trace.json"), std::string::npos);
    EXPECT_EQ(error.error_number, ENOENT);
  }
  const std::string folder = ::testing::TempDir() + "trace_test_folder";
  std::filesystem::create_directories(folder + "/inner");
  EXPECT_THROW(Trace().write(folder), IoError);  // a folder that is not empty is in the way
  EXPECT_FALSE(std::filesystem::exists(folder + ".new"));
  std::filesystem::remove_all(folder);
}

}  // namespace trace_test
