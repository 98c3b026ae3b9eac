// The queue on files that block or refuse: a pipe that nobody reads, and /dev/full.

#include "events/event_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>

#include "events/records.h"

namespace event_queue_test {

using namespace lockstep::events;
using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr EventQueue::Seconds kSoon{0.02}, kNever{3600};
constexpr std::size_t kSize = 1000;

/// Adds `count` events of kSize bytes, as far as they fit; returns how many did.
int add(EventQueue& queue, int count) {
  int taken = 0;
  for (int i = 0; i < count; ++i)
    if (queue.reserve(kSize)) {
      queue.add(kSize, [] { return std::string(kSize, 'x'); });
      ++taken;
    }
  return taken;
}

std::string read_all(int handle) {
  std::string bytes;
  char piece[4096];
  for (::ssize_t got = 0; (got = ::read(handle, piece, sizeof piece)) > 0;)
    bytes.append(piece, static_cast<std::size_t>(got));
  return bytes;
}

TEST(EventQueue, NeverWaitsForADiskThatHangsAndDropsWhatIsTooMuch) {
  int ends[2] = {};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::string found;
  int taken = 0;
  std::jthread reader;
  {
    EventQueue queue(ends[1], "a pipe", kSoon, 100 * kSize + 4000);
    // Far more than a pipe holds (64 KiB): the queue's thread hangs in write().
    const auto begin = Clock::now();
    while (queue.dropped() < 1000 && Clock::now() - begin < seconds(30)) {
      const auto before = Clock::now();
      taken += add(queue, 10);
      EXPECT_LT(Clock::now() - before, seconds(2));  // a hung disk would be for ever
    }
    EXPECT_GE(queue.dropped(), 1000);
    EXPECT_GE(taken, 100);
    reader = std::jthread([&] { found = read_all(ends[0]); });  // the disk wakes up
  }
  reader.join();
  ::close(ends[0]);
  EXPECT_EQ(read_records("a pipe", found).size(), static_cast<std::size_t>(taken));
}

TEST(EventQueue, ReportsAFullDiskAndStillReturnsAtOnce) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  EventQueue queue(full, "the-file", kSoon, 10 * kSize);
  EXPECT_EQ(queue.error(), "");
  EXPECT_EQ(add(queue, 3), 3);
  queue.flush();
  EXPECT_EQ(queue.error(), "the-file: cannot write: No space left on device");
  EXPECT_EQ(queue.dropped(), 0);
  const auto before = Clock::now();
  EXPECT_LT(add(queue, 1000), 10);
  EXPECT_LT(Clock::now() - before, seconds(2));
  EXPECT_GT(queue.dropped(), 900);
}

TEST(EventQueue, LosesNothingWhenARefusingDiskRecovers) {
  int ends[2] = {};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);  // a full pipe refuses, in mid-record
  std::string found;
  {
    EventQueue queue(ends[1], "a pipe", kNever, 1000 * kSize);
    EXPECT_EQ(add(queue, 200), 200);
    queue.flush();
    EXPECT_NE(queue.error(), "");
    EXPECT_EQ(add(queue, 5), 5);
    found += read_all(ends[0]);
    EXPECT_THROW(read_records("a pipe", found), std::runtime_error);
    for (int i = 0; i < 100 && !queue.error().empty(); ++i) {
      queue.flush();
      found += read_all(ends[0]);
    }
    EXPECT_EQ(queue.error(), "");
    EXPECT_EQ(queue.dropped(), 0);
  }
  ::close(ends[0]);
  EXPECT_EQ(read_records("a pipe", found).size(), 205U);
}

TEST(EventQueue, DropsAnEventThatCannotBeEncoded) {
  int ends[2] = {};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  {
    EventQueue queue(ends[1], "a pipe", kNever, 2 * kSize);
    for (int i = 0; i < 3; ++i) {  // three would not fit if the first two still took room
      ASSERT_TRUE(queue.reserve(kSize));
      queue.add(kSize, []() -> std::string { throw std::runtime_error("no"); });
      queue.flush();
    }
    EXPECT_EQ(queue.dropped(), 3);
    EXPECT_EQ(add(queue, 1), 1);
  }
  EXPECT_EQ(read_records("a pipe", read_all(ends[0])).size(), 1U);
  ::close(ends[0]);
}

TEST(EventQueue, WhatIsWrittenTakesNoMoreRoom) {
  EventQueue queue(::open("/dev/null", O_WRONLY | O_CLOEXEC), "/dev/null", kNever, 3 * kSize);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(add(queue, 2), 2);
    queue.flush();
  }
  EXPECT_EQ(queue.error(), "");
}

TEST(EventQueue, EncodesOnItsOwnThread) {
  int ends[2] = {};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::atomic<std::thread::id> where;
  {
    EventQueue queue(ends[1], "a pipe", kNever, 2 * kSize);
    ASSERT_TRUE(queue.reserve(1));
    queue.add(1, [&] {
      where = std::this_thread::get_id();
      return std::string("x");
    });
  }
  ::close(ends[0]);
  EXPECT_NE(where.load(), std::thread::id());
  EXPECT_NE(where.load(), std::this_thread::get_id());
}

TEST(EventQueue, WritesInTimeWithoutBeingAsked) {
  int ends[2] = {};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  EventQueue queue(ends[1], "a pipe", kSoon, 10 * kSize);
  EXPECT_EQ(add(queue, 1), 1);
  pollfd arrival{.fd = ends[0], .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&arrival, 1, 30'000), 1);
  ::close(ends[0]);
}

}  // namespace event_queue_test
