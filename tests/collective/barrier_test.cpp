// A barrier that can be called off.

#include "collective/barrier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "collective/collective.h"

namespace barrier_test {

using namespace std::chrono_literals;
using lockstep::collective::Aborted;
using lockstep::collective::Barrier;

/// Runs `f(party)` on `parties` threads and waits for them.
template <class F>
void run(int parties, F f) {
  std::vector<std::jthread> threads;
  for (int party = 0; party < parties; ++party) threads.emplace_back([&f, party] { f(party); });
}

/// Everybody meets `rounds` times; how often a party did not see what the others wrote before.
int missed_writes(Barrier& barrier, int parties, int rounds) {
  std::vector<int> written(static_cast<std::size_t>(parties));  // not atomic: the barrier orders
  std::atomic<int> missed = 0;
  run(parties, [&](int party) {
    for (int round = 1; round <= rounds; ++round) {
      written[static_cast<std::size_t>(party)] = round;
      barrier.meet();
      for (const int value : written) missed += value != round;
      barrier.meet();
    }
  });
  return missed;
}

TEST(Barrier, AllSeeWhatWasWrittenBeforeTheyMet) {
  for (const bool spins : {false, true})
    for (const int parties : {1, 2, 3, 5}) {
      Barrier barrier(parties, spins);
      EXPECT_EQ(missed_writes(barrier, parties, 200), 0) << parties << " parties";
    }
}

TEST(Barrier, NobodyLeavesBeforeTheLastIsThere) {
  Barrier barrier(3);
  std::atomic<int> arrived = 0;
  std::atomic<int> early = 0;
  run(3, [&](int party) {
    if (party == 1) std::this_thread::sleep_for(30ms);
    ++arrived;
    barrier.meet();
    early += arrived != 3;
  });
  EXPECT_EQ(early, 0);
}

/// Two wait, the third calls the meeting off after `delay`.
void abort_after(std::chrono::microseconds delay, bool spins) {
  Barrier barrier(3, spins);
  std::atomic<int> freed = 0;
  run(3, [&](int party) {
    if (party == 2) {
      std::this_thread::sleep_for(delay);
      barrier.abort();
      return;
    }
    try {
      barrier.meet();
    } catch (const Aborted&) {
      ++freed;
    }
  });
  EXPECT_EQ(freed, 2);
  EXPECT_TRUE(barrier.aborted());
}

TEST(Barrier, AbortFreesThoseWhoWait) {
  abort_after(20ms, /*spins=*/false);
  abort_after(20ms, /*spins=*/true);  // they sleep by now
  for (int round = 0; round < 20; ++round) abort_after(20us, /*spins=*/true);
}

TEST(Barrier, AfterAnAbortMeetingThrowsAtOnce) {
  Barrier barrier(2);
  EXPECT_FALSE(barrier.aborted());
  barrier.abort();
  EXPECT_THROW(barrier.meet(), Aborted);
  EXPECT_THROW(barrier.meet(), Aborted);
}

TEST(Barrier, ResetMakesItUsableAgain) {
  Barrier barrier(3, /*spins=*/true);
  for (int round = 0; round < 3; ++round) {
    run(3, [&](int party) {
      if (party == 0)
        barrier.abort();  // before, while or after the others come
      else
        EXPECT_THROW(barrier.meet(), Aborted);
    });
    barrier.reset();
    EXPECT_FALSE(barrier.aborted());
    EXPECT_EQ(missed_writes(barrier, 3, 20), 0);
  }
}

}  // namespace barrier_test
