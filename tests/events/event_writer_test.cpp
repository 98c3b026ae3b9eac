// The writer from outside: its files, read back, also after a kill and on a full disk.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/events.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "decoded.h"
#include "events/records.h"

namespace event_writer_test {

using namespace lockstep;
using namespace lockstep::events;
using namespace lockstep::events;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<DecodedEvent> decode_all(const fs::path& path, std::string_view bytes) {
  std::vector<DecodedEvent> events;
  for (const std::string_view one : read_records(path, bytes)) events.push_back(decode(one));
  return events;
}

std::vector<DecodedEvent> read(const fs::path& path) { return decode_all(path, content(path)); }

/// All events before the first that is torn.
std::vector<DecodedEvent> read_sound(const fs::path& path) {
  const std::string bytes = content(path);
  try {
    return decode_all(path, bytes);
  } catch (const CorruptFile& error) {
    return decode_all(path, std::string_view(bytes).substr(0, error.offset));
  }
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Runs `action` in a child process and kills it there, or lets it return, which must be 0.
template <class Action>
pid_t in_child(const Action& action) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(action());
  return child;
}

class EventWriterTest : public testing::Test {
 protected:
  EventWriterTest() {
    std::string name = testing::TempDir() + "lockstep-events-XXXXXX";
    if (!mkdtemp(name.data())) throw IoError(name, "make", errno);
    folder_ = name;
  }
  ~EventWriterTest() override { fs::remove_all(folder_); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path());
    return found;
  }

  fs::path folder_;
};

TEST_F(EventWriterTest, AFileBeginsWithItsVersionAndHasOneRecordAnEvent) {
  const double before = now();
  std::string path;
  {
    EventWriter writer(folder_);
    path = writer.path();
    writer.scalar("loss", 1, 0.5);
    writer.scalar("loss", 2, 0.25);
  }
  const auto events = read(path);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[2].step, 2);
  EXPECT_EQ(events[2].values.at(0).tag, "loss");
  EXPECT_EQ(events[2].values.at(0).scalar, 0.25);
  EXPECT_GE(events[1].wall_time, before);
  EXPECT_LE(events[1].wall_time, now());
}

TEST_F(EventWriterTest, TimeIsThatOfTheCallNotOfTheWriting) {
  EventWriter writer(folder_);
  writer.scalar("loss", 1, 0.5);
  const double after = now();
  std::this_thread::sleep_for(50ms);
  writer.flush();
  EXPECT_LE(read(writer.path()).at(1).wall_time, after);
}

TEST_F(EventWriterTest, EveryKindOfEventIsThere) {
  EventWriter writer(folder_);
  writer.histogram("weights", 1, std::vector<float>{1, 2, 3});
  writer.image("picture", 2, {.width = 1, .height = 1, .channels = 1, .pixels = {9}});
  writer.text("note", 3, "**bold**");
  writer.hyper_parameters({{"lr", 0.1}, {"nesterov", true}, {"model", "resnet"}}, {"loss"});
  writer.graph({{.name = "net/fc", .op = "Linear", .inputs = {"net/in"}, .attributes = {}}});
  writer.session_end();
  writer.flush();
  const auto events = read(writer.path());
  ASSERT_EQ(events.size(), 8U);
  EXPECT_EQ(events[1].values.at(0).plugin, "histograms");
  EXPECT_EQ(events[2].values.at(0).tag, "picture");
  EXPECT_EQ(events[3].values.at(0).strings.at(0), "**bold**");
  EXPECT_EQ(events[4].values.at(0).tag, "_hparams_/experiment");
  EXPECT_NE(events[5].values.at(0).plugin_content.find("nesterov"), std::string::npos);
  EXPECT_NE(events[6].graph.find("net/fc"), std::string::npos);
  EXPECT_EQ(events[7].values.at(0).tag, "_hparams_/session_end_info");
  EXPECT_EQ(writer.dropped(), 0);
  EXPECT_EQ(writer.error(), "");
}

TEST_F(EventWriterTest, FlushReturnsWhenTheFileHasAllThatWasAdded) {
  EventWriter writer(folder_, {.flush_every = 1h});
  for (int step = 0; step < 20; ++step) {
    writer.scalar("loss", step, 1);
    writer.flush();
    EXPECT_EQ(read(writer.path()).size(), static_cast<std::size_t>(step) + 2);
  }
}

TEST_F(EventWriterTest, WritersInOneFolderHaveFilesOfTheirOwn) {
  {
    const EventWriter first(folder_), second(folder_), third(folder_ / "deep" / "er");
    EXPECT_EQ(files().size(), 3U);
    EXPECT_TRUE(fs::is_directory(folder_ / "deep" / "er"));
    const std::string name = fs::path(first.path()).filename(), begin = "events.out.tfevents.";
    const std::string end = "." + std::to_string(::getpid()) + ".0";
    EXPECT_TRUE(name.starts_with(begin) && name.ends_with(end)) << name;
    EXPECT_NEAR(std::stod(name.substr(begin.size(), 10)), now(), 60);
  }
}

TEST_F(EventWriterTest, AResumedRunSaysFromWhereItGoesOn) {
  std::string path;
  {
    const EventWriter writer(folder_, {.resumed_at = 38});
    path = writer.path();
  }
  const auto events = read(path);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].step, 38);
  EXPECT_EQ(events[1].session_log, std::string("\x08\x01"));
}

TEST_F(EventWriterTest, AFolderThatCannotBeMadeIsAnIoErrorWithItsPath) {
  const fs::path file = folder_ / "file";
  std::ofstream(file) << "not a folder";
  for (const fs::path& folder : {file, file / "below"}) try {
      const EventWriter writer(folder);
      FAIL() << folder << " took events";
    } catch (const IoError& error) {
      EXPECT_EQ(error.error_number, ENOTDIR) << error.what();
      EXPECT_NE(std::string(error.what()).find(file.string()), std::string::npos) << error.what();
    }
}

TEST_F(EventWriterTest, ABrokenImageIsRefusedAtTheCall) {
  EventWriter writer(folder_);
  EXPECT_THROW(writer.image("x", 1, {.width = 2, .height = 2, .channels = 3, .pixels = {1}}),
               std::logic_error);
}

TEST_F(EventWriterTest, WhatIsLargerThanTheQueueIsDroppedAndCounted) {
  EventWriter writer(folder_, {.most_queued_bytes = 10'000});
  writer.histogram("weights", 1, std::vector<float>(10'000));
  EXPECT_EQ(writer.dropped(), 1);
  writer.histogram("weights", 2, std::vector<float>(100));
  writer.flush();
  EXPECT_EQ(writer.dropped(), 1);
  EXPECT_EQ(read(writer.path()).size(), 2U);
}

TEST_F(EventWriterTest, FourThreadsLoseNothing) {
  constexpr std::int64_t kEach = 2000;
  std::string path;
  {
    EventWriter writer(folder_, {.flush_every = 1ms});
    path = writer.path();
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&writer, tag = std::to_string(thread)] {
        for (std::int64_t step = 0; step < kEach; ++step) writer.scalar(tag, step, 1);
      });
  }
  std::map<std::string, std::int64_t> next;
  for (const DecodedEvent& event : read(path))
    for (const DecodedValue& value : event.values) EXPECT_EQ(event.step, next[value.tag]++);
  EXPECT_EQ(next.size(), 4U);
  for (const auto& [tag, count] : next) EXPECT_EQ(count, kEach) << tag;
}

TEST_F(EventWriterTest, AKilledProcessLosesAtMostTheFlushInterval) {
  constexpr double kInterval = 0.2;
  const pid_t child = in_child([&] {
    EventWriter writer(folder_, {.flush_every = std::chrono::duration<double>(kInterval)});
    for (int step = 0;; ++step) {
      writer.scalar("loss", step, step);
      std::this_thread::sleep_for(1ms);
    }
    return 0;
  });
  ASSERT_GT(child, 0);
  std::this_thread::sleep_for(1500ms);
  const double killed = now();
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(files().size(), 1U);
  const auto events = read_sound(files()[0]);
  ASSERT_GT(events.size(), 1U);
  EXPECT_GE(events.back().wall_time, killed - kInterval - 0.8);  // 0.8: a busy machine
  for (std::size_t i = 1; i < events.size(); ++i)
    EXPECT_EQ(events[i].step, static_cast<std::int64_t>(i) - 1);
}

TEST_F(EventWriterTest, OnAFullDiskTrainingGoesOnAndTheErrorIsReported) {
  // The child's files may have 20000 bytes, then the system refuses; later they may have more.
  const pid_t child = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{20'000, RLIM_INFINITY}, large{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &small);
    EventWriter writer(folder_);
    for (int step = 0; step < 1000; ++step) writer.scalar("loss", step, step);
    writer.flush();
    if (writer.error().find(writer.path() + ": cannot write: ") != 0) return 1;
    for (int step = 1000; step < 2000; ++step) writer.scalar("loss", step, step);
    if (writer.dropped() != 0) return 2;
    ::setrlimit(RLIMIT_FSIZE, &large);
    writer.flush();
    return writer.error().empty() ? 0 : 3;
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const auto events = read(files().at(0));
  ASSERT_EQ(events.size(), 2001U);
  EXPECT_EQ(events.back().step, 1999);
}

TEST_F(EventWriterTest, OnADiskThatStaysFullTheWriterEndsAndWhatIsThereIsSound) {
  const pid_t child = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{20'000, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &small);
    EventWriter writer(folder_, {.flush_every = 5ms});
    for (int step = 0; step < 5000; ++step) writer.scalar("loss", step, step);
    return 0;
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_GT(read_sound(files().at(0)).size(), 300U);
}

}  // namespace event_writer_test
