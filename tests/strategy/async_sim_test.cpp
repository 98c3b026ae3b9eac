// Asynchronous training on simulated devices: memories of their own, virtual time, faults.

#include "on_sim.h"

namespace async_sim_test {

using namespace on_sim;

AsyncOptions how(int devices, Asynchrony async, int shards = 2) {
  AsyncOptions result = options(sim_devices(devices));
  result.method.shards = shards;
  result.method.async = async;
  return result;
}

struct AsyncRun {
  Trained trained;
  std::vector<std::int64_t> staleness;
  std::map<std::string, int> batches;  ///< by device
  std::vector<double> times;           ///< virtual, after each step
  std::set<std::string> notes;
};

template <class Model, class Source>
AsyncRun train_async(const AsyncOptions& how, const Source& source, int steps) {
  Async<Model> towers(how);
  AsyncRun run;
  const auto add = [&](const StepResult& report) {
    run.trained.losses.push_back(report.loss);
    run.trained.norms.push_back(report.gradient_norm);
    run.staleness.push_back(report.staleness.value());
    for (const TowerReport& tower : report.towers) run.batches[tower.device] += tower.shards > 0;
    run.times.push_back(towers.now().count());
    run.notes.insert(report.notes.begin(), report.notes.end());
  };
  for (int step = 0; step < steps; ++step)
    if (const auto report = towers.step(source(step), models::CrossEntropy{})) add(*report);
  while (const auto report = towers.finish()) add(*report);
  run.trained.state = towers.state();
  return run;
}

/// A machine that computes slowly: times are those of computing.
sim::Options slow(std::vector<double> slowdown) {
  return {.devices = static_cast<int>(slowdown.size()),
          .arithmetic_per_second = 1e9,
          .memory_bytes_per_second = 1e10,
          .link_latency = Seconds(0),
          .launch = Seconds(0),
          .slowdown = std::move(slowdown)};
}

constexpr int kSteps = 10;
const auto kImages = [](int step) { return models::images(step, 5 + step % 9); };

TEST(AsyncSim, ADelayIsTheSameBitForBitOn1To4DevicesAndOnTheCpu) {
  for (const int delay : {0, 1, 3}) {
    AsyncOptions on_cpu = how(1, {.delay = delay});
    on_cpu.where.devices = cpu_devices(2);
    const AsyncRun expected = train_async<models::ConvNet>(on_cpu, kImages, kSteps);
    for (const int devices : {1, 2, 3, 4}) {
      sim::configure({.devices = 4, .slowdown = {1, 3}});
      const AsyncRun found =
          train_async<models::ConvNet>(how(devices, {.delay = delay}), kImages, kSteps);
      expect_same(expected.trained, found.trained,
                  std::to_string(devices) + " devices, delay " + std::to_string(delay));
      EXPECT_EQ(expected.staleness, found.staleness);
    }
  }
}

TEST(AsyncSim, WithoutDelayIsMirroredBitForBit) {
  sim::configure({.devices = 3});
  MirroredOptions mirrored = how(2, {});
  mirrored.method.async.reset();
  const Trained expected = train<models::ConvNet>(mirrored, kImages, kSteps);
  const AsyncRun found = train_async<models::ConvNet>(how(3, {.delay = 0}), kImages, kSteps);
  expect_same(expected, found.trained, "delay 0");
}

TEST(AsyncSim, VirtualTimeRepeatsExactlyInBothOrders) {
  for (const Asynchrony async : {Asynchrony{.delay = 3}, Asynchrony{.order = Order::free},
                                 Asynchrony{.order = Order::free, .staleness = 2}}) {
    std::optional<AsyncRun> first;
    for (int repeat = 0; repeat < 3; ++repeat) {
      sim::configure(slow({1, 2, 3}));
      const AsyncRun run = train_async<models::Attention>(
          how(3, async), [](int step) { return models::sentences(step); }, 30);
      if (!first) first = run;
      expect_same(first->trained, run.trained, "repeated");
      EXPECT_EQ(first->staleness, run.staleness);
      EXPECT_EQ(first->batches, run.batches);
      EXPECT_EQ(first->times, run.times);
    }
    EXPECT_GT(first->batches.at("sim:0"), first->batches.at("sim:2"));
  }
}

TEST(AsyncSim, TheFreeOrderDependsOnTheDevices) {
  const auto losses = [](const std::vector<double>& slowdown) {
    sim::configure(slow(slowdown));
    return train_async<models::Mlp>(
               how(3, {.order = Order::free}), [](int step) { return models::vectors(step); }, 20)
        .trained.losses;
  };
  EXPECT_NE(losses({1, 1, 1}), losses({1, 5, 9}));
}

TEST(AsyncSim, CompensationInBothOrdersIsThatOfTheCpu) {
  const auto source = [](int step) { return models::vectors(step); };
  const auto run = [&](std::vector<Device> devices, Order order) {
    sim::configure({.devices = 2});
    AsyncOptions with = how(1, {.order = order, .compensation = 0.5});
    with.where.devices = std::move(devices);
    return train_async<models::Mlp>(with, source, kSteps).trained;
  };
  expect_same(run(cpu_devices(2), Order::delay), run(sim_devices(2), Order::delay), "delay");
  expect_same(run(cpu_devices(1), Order::free), run(sim_devices(1), Order::free), "free");
}

TEST(AsyncSim, NobodyWaitsForASlowDevice) {
  // One device of two is four times slower: together they should do 1.25 times what one does. A
  // synchronous training with even shards does half of what one does.
  const auto seconds = [](int devices) {
    sim::configure(slow({1, 4}));
    return train_async<models::Attention>(
               how(devices, {.delay = 7}, 1), [](int step) { return models::sentences(step, 64); },
               60)
        .times.back();
  };
  const double one = seconds(1), both = seconds(2);
  EXPECT_LT(both, one / 1.15);
}

TEST(AsyncSim, StalenessStaysWithinItsBound) {
  for (const int bound : {0, 1, 2, 5}) {
    sim::configure(slow({1, 1, 2, 20}));
    const AsyncRun run = train_async<models::Mlp>(
        how(4, {.order = Order::free, .staleness = bound}),
        [](int step) { return models::vectors(step); }, 60);
    EXPECT_LE(std::ranges::max(run.staleness), bound);
    if (bound < 3) {
      EXPECT_EQ(std::ranges::max(run.staleness), bound);
    }
    EXPECT_EQ(run.staleness.size(), 60u);
  }
}

/// Enough elements that every device owns some.
struct Wide : torch::nn::Module {
  Wide() {
    first = register_module("first", torch::nn::Linear(12, 1200));
    norm = register_module("norm", torch::nn::BatchNorm1d(1200));
    second = register_module("second", torch::nn::Linear(1200, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::relu(norm(first(x)))); }
  torch::nn::Linear first = nullptr, second = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
};

/// Lost at operator `at` of the first step from 3 on in which it has as many.
std::vector<sim::Fault> lost_at(int device, int at) {
  std::vector<sim::Fault> faults;
  for (int step = 3; step < kSteps; ++step)
    faults.push_back({.device = device, .step = step, .at = at});
  return faults;
}

TEST(AsyncSim, ALostDeviceIsReplayedBitForBit) {
  const auto source = [](int step) { return models::vectors(step); };
  sim::configure({.devices = 3});
  AsyncOptions replay = how(3, {.delay = 3});
  replay.where.on_device_failure = OnDeviceFailure::replay;
  const AsyncRun expected = train_async<Wide>(replay, source, kSteps);
  int replayed = 0, torn = 0;
  for (const int device : {0, 1, 2})
    for (int at = 1; at < 80; at += 6) {
      sim::configure({.devices = 3, .faults = lost_at(device, at)});
      const std::string what = "sim:" + std::to_string(device) + " at " + std::to_string(at);
      try {
        const AsyncRun found = train_async<Wide>(replay, source, kSteps);
        expect_same(expected.trained, found.trained, what);
        replayed += std::ranges::any_of(found.notes, [](const std::string& note) {
          return note.find("go on without it") != std::string::npos;
        });
      } catch (const TowerError& error) {
        EXPECT_EQ(error.stage, "update") << what << ": " << error.what();
        EXPECT_EQ(error.device, "sim:" + std::to_string(device)) << what;
        ++torn;
      }
    }
  EXPECT_GT(replayed, 35);
  EXPECT_EQ(torn, 0);
}

TEST(AsyncSim, InFreeOrderALostDeviceIsReplayedAndNoBatchIsLost) {
  AsyncOptions replay = how(3, {.order = Order::free});
  replay.where.on_device_failure = OnDeviceFailure::replay;
  int replayed = 0;
  for (const int device : {0, 1, 2})
    for (int at = 1; at < 80; at += 13) {
      sim::configure({.devices = 3, .faults = lost_at(device, at)});
      const AsyncRun found = train_async<Wide>(
          replay, [](int step) { return models::vectors(step); }, kSteps);
      EXPECT_EQ(found.trained.losses.size(), static_cast<std::size_t>(kSteps));
      EXPECT_EQ(found.trained.state.updates, kSteps);
      replayed += std::ranges::any_of(found.notes, [](const std::string& note) {
        return note.find("go on without it") != std::string::npos;
      });
    }
  EXPECT_GT(replayed, 10);
}

TEST(AsyncSim, ALostDeviceStopsTheTrainingAndIsNamed) {
  sim::configure({.devices = 3, .faults = lost_at(1, 30)});
  Async<Wide> towers(how(3, {.delay = 3}));
  try {
    for (int step = 0; step < kSteps; ++step)
      towers.step(models::vectors(step), models::CrossEntropy{});
    FAIL() << "the device was not missed";
  } catch (const TowerError& error) {
    EXPECT_EQ(error.device, "sim:1");
  }
}

TEST(AsyncSim, OutOfMemoryIsNamedAndNothingIsApplied) {
  sim::configure({.devices = 2});
  Async<models::Mlp> towers(how(2, {.delay = 1}));
  for (int step = 0; step < 4; ++step) towers.step(models::vectors(step), models::CrossEntropy{});
  const State before = towers.state();
  for (std::int64_t step = before.steps; step < kSteps; ++step)
    sim::inject({.kind = sim::Fault::Kind::out_of_memory, .device = 1, .step = step, .at = 1});
  EXPECT_THROW(
      {
        for (int step = 4; step < kSteps; ++step)
          towers.step(models::vectors(step), models::CrossEntropy{});
      },
      TowerError);
  // Batches before the failed one may have been applied; what is there is whole.
  const State after = towers.state();
  EXPECT_GE(after.steps, before.steps);
  EXPECT_FALSE(towers.step(models::vectors(4), models::CrossEntropy{}));  // begins anew
}

}  // namespace async_sim_test
