// Requests that come at once are computed together.

#include "serve/batcher.h"

#include <gtest/gtest.h>

#include <latch>

namespace batcher_test {

using namespace lockstep;
using namespace lockstep::apps;
using Numbers = std::vector<int>;

TEST(Batcher, RequestsThatWaitAreComputedTogetherAndEachGetsItsAnswer) {
  constexpr int kRequests = 5;
  std::latch begun(1), all_there(1);
  Batcher<int, int> batcher(
      [&](const Numbers& requests) {
        if (requests.front() == 0) {
          begun.count_down();
          all_there.wait();
        }
        Numbers answers;
        for (const int request : requests) answers.push_back(10 * request);
        return answers;
      },
      {});
  std::vector<std::future<int>> answers;
  const auto ask = [&](int i) {
    answers.push_back(std::async(std::launch::async, [&batcher, i] { return batcher.ask(i); }));
  };
  ask(0);
  begun.wait();
  for (int i = 1; i < kRequests; ++i) ask(i);
  while (batcher.waiting() < kRequests - 1) std::this_thread::yield();
  all_there.count_down();
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(answers[static_cast<std::size_t>(i)].get(), 10 * i);
  EXPECT_EQ(batcher.most_together(), kRequests - 1U);
}

TEST(Batcher, WhatIsTooMuchOrTooLateIsRefusedAndWhatFailsIsThrown) {
  std::latch end(1);
  Batcher<int, int> slow(
      [&](const Numbers& requests) {
        end.wait();
        return requests;
      },
      {.together = 1, .waiting = 1, .timeout = Seconds(0.05)});
  EXPECT_THROW(slow.ask(1), TooLate);
  while (slow.waiting() > 0) std::this_thread::yield();
  EXPECT_THROW(slow.ask(2), TooLate) << "it waits for the first";
  EXPECT_THROW(slow.ask(3), Busy) << "the second still waits";
  end.count_down();

  Batcher<int, int> failing(
      [](const Numbers&) -> Numbers { throw std::runtime_error("no memory"); }, {});
  for (int i = 0; i < 3; ++i) EXPECT_THROW(failing.ask(i), std::runtime_error) << "and serves on";
}

}  // namespace batcher_test
