// The towers' threads.

#include "device/tower_pool.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <ctime>
#include <future>
#include <set>
#include <stdexcept>

namespace tower_pool_test {

using namespace lockstep;
using device::TowerPool;

std::vector<std::thread::id> thread_ids(TowerPool& pool) {
  std::vector<std::thread::id> ids(static_cast<std::size_t>(pool.size()));
  pool.run([&](int tower) { ids[static_cast<std::size_t>(tower)] = std::this_thread::get_id(); });
  return ids;
}

std::vector<int> intra_op_threads(TowerPool& pool) {
  std::vector<int> counts(static_cast<std::size_t>(pool.size()));
  pool.run([&](int tower) { counts[static_cast<std::size_t>(tower)] = at::get_num_threads(); });
  return counts;
}

int threads_of_a_new_thread() {
  int count = 0;
  std::jthread([&] { count = at::get_num_threads(); }).join();
  return count;
}

TEST(TowerPool, EveryTowerHasItsOwnThreadForLife) {
  TowerPool pool(cpu_devices(3));
  const auto ids = thread_ids(pool);
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 3U);
  EXPECT_FALSE(std::set(ids.begin(), ids.end()).contains(std::this_thread::get_id()));
  EXPECT_EQ(thread_ids(pool), ids);
}

TEST(TowerPool, TowersRunAtTheSameTime) {
  TowerPool pool(cpu_devices(3));
  std::barrier together(3);  // passed only if all three jobs are under way
  std::atomic<int> passed = 0;
  pool.run([&](int) {
    together.arrive_and_wait();
    ++passed;
  });
  EXPECT_EQ(passed, 3);
}

TEST(TowerPool, KnowsItsDevices) {
  const TowerPool pool(parse_devices("cpu:3,1", 2, {.cores = 4}));
  EXPECT_EQ(pool.size(), 2);
  EXPECT_EQ(pool.device(0).name(), "cpu:3");
  EXPECT_EQ(pool.device(1).name(), "cpu:1");
}

TEST(TowerPool, HasCoresIfEachThreadHasOne) {
  const int cores = inventory().cores;
  EXPECT_TRUE(TowerPool(cpu_devices(1, cores)).has_cores());
  EXPECT_TRUE(TowerPool(cpu_devices(cores)).has_cores());
  EXPECT_FALSE(TowerPool(cpu_devices(cores + 1)).has_cores());
}

TEST(TowerPool, TowersWithoutAJobSleep) {
  TowerPool pool(cpu_devices(inventory().cores));
  for (int round = 0; round < 100; ++round) pool.run([](int) {});
  const std::clock_t before = std::clock();  // CPU time of all threads
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 50);
}

#ifndef LOCKSTEP_SANITIZED  // sanitizers bring their own allocator
TEST(TowerPool, ATowerFindsTheMemoryThatItFreedMapped) {
  TowerPool pool(cpu_devices(2));
  std::array<long, 2> faults{};
  const auto activations = [&](int tower) {
    std::vector<torch::Tensor> kept;
    for (int i = 0; i < 6; ++i) kept.push_back(torch::ones({5 << 20}));  // 20 MiB each
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    faults[static_cast<std::size_t>(tower)] = usage.ru_minflt;
  };
  for (int step = 0; step < 3; ++step) pool.run(activations);
  const std::array<long, 2> before = faults;
  for (int step = 0; step < 10; ++step) pool.run(activations);
  for (std::size_t tower = 0; tower < 2; ++tower)
    EXPECT_LT(faults[tower] - before[tower], 1000);  // of 307200 pages
}
#endif

TEST(TowerPool, GradModeIsOnWhateverTheCallerHas) {
  const torch::NoGradGuard no_grad;
  TowerPool pool(cpu_devices(2));
  std::atomic<int> on = 0;
  pool.run([&](int) {
    on += torch::GradMode::is_enabled() &&
          torch::ones({1}, torch::requires_grad()).mul(2).requires_grad();
  });
  EXPECT_EQ(on, 2);
  EXPECT_FALSE(torch::GradMode::is_enabled());
}

TEST(TowerPool, EachTowerHasTheThreadsOfItsDevice) {
  TowerPool pool(
      {{.index = 0, .threads = 1}, {.index = 1, .threads = 3}, {.index = 2, .threads = 2}});
  const std::vector<int> expected = {1, 3, 2};
  EXPECT_EQ(intra_op_threads(pool), expected);
  EXPECT_EQ(intra_op_threads(pool), expected);
}

TEST(TowerPool, KernelsSumAsTheThreadsOfTheDeviceMakeThem) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{1});
  const torch::Tensor numbers = torch::randn({300000}, random);
  const int before = at::get_num_threads();
  std::vector<float> expected, found(2);
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    expected.push_back(numbers.sum().item<float>());
  }
  at::set_num_threads(before);
  ASSERT_NE(expected[0], expected[1]);  // so the threads show
  TowerPool pool({{.index = 0, .threads = 1}, {.index = 1, .threads = 3}});
  pool.run(
      [&](int tower) { found[static_cast<std::size_t>(tower)] = numbers.sum().item<float>(); });
  EXPECT_EQ(found, expected);
}

TEST(TowerPool, TheCallersThreadsStayAsTheyWere) {
  const int before = at::get_num_threads();
  for (const int callers : {2, 5}) {
    at::set_num_threads(callers);
    TowerPool pool(cpu_devices(2, 3));
    EXPECT_EQ(at::get_num_threads(), callers);
    EXPECT_EQ(threads_of_a_new_thread(), callers);
    EXPECT_EQ(intra_op_threads(pool), (std::vector{3, 3}));
  }
  at::set_num_threads(before);
}

TEST(TowerPool, TwoPoolsKeepTheirThreadsApart) {
  TowerPool first(cpu_devices(1, 2)), second(cpu_devices(2, 3));
  EXPECT_EQ(intra_op_threads(first), (std::vector{2}));
  EXPECT_EQ(intra_op_threads(second), (std::vector{3, 3}));
}

TEST(TowerPool, TheLowestTowersExceptionIsRethrown) {
  TowerPool pool(cpu_devices(4));
  std::atomic<int> ran = 0;
  const auto job = [&](int tower) {
    ++ran;
    if (tower == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // not the first
    if (tower >= 1) throw std::runtime_error("tower " + std::to_string(tower));
  };
  try {
    pool.run(job);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "tower 1");
  }
  EXPECT_EQ(ran, 4);
}

TEST(TowerPool, WorksAfterAnException) {
  TowerPool pool(cpu_devices(2));
  const auto ids = thread_ids(pool);
  for (int round = 0; round < 3; ++round) {
    EXPECT_THROW(pool.run([](int) { throw 7; }), int);
    EXPECT_EQ(thread_ids(pool), ids);
  }
}

TEST(TowerPool, BetweenStartAndFinishTheCallerIsFree) {
  TowerPool pool(cpu_devices(2));
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  std::atomic<int> done = 0;
  const std::function<void(int)> job = [&](int) {
    gone.wait();
    ++done;
  };
  pool.start(job);
  EXPECT_EQ(done, 0);
  go.set_value();  // with `run` this line would never be reached
  pool.finish();
  EXPECT_EQ(done, 2);
}

TEST(TowerPool, FinishRethrowsWhatStartLetLoose) {
  TowerPool pool(cpu_devices(2));
  const std::function<void(int)> job = [](int tower) {
    if (tower == 1) throw std::runtime_error("tower 1");
  };
  pool.start(job);
  EXPECT_THROW(pool.finish(), std::runtime_error);
}

TEST(TowerPool, RunsOneJobAtATime) {
  TowerPool pool(cpu_devices(1));
  std::promise<void> go;
  auto gone = go.get_future();
  const std::function<void(int)> job = [&](int) { gone.wait(); };
  pool.start(job);
  EXPECT_THROW(pool.start(job), std::logic_error);
  go.set_value();
  pool.finish();
}

TEST(TowerPool, NeedsADevice) { EXPECT_THROW(TowerPool({}), std::logic_error); }

TEST(TowerPool, ADeviceWithoutThreadsIsAnErrorNotAHang) {
  // Detached, so that a hang fails this test alone.
  auto outcome = std::make_shared<std::promise<bool>>();
  auto refused = outcome->get_future();
  std::thread([outcome] {
    try {
      const TowerPool pool({Device{.threads = 0}});
      outcome->set_value(false);
    } catch (const std::exception&) {
      outcome->set_value(true);
    }
  }).detach();
  ASSERT_EQ(refused.wait_for(std::chrono::seconds(2)), std::future_status::ready) << "it hangs";
  EXPECT_TRUE(refused.get());
}

}  // namespace tower_pool_test
