// Where the time goes, in virtual time: what overlaps, and who gets how many shards.

#include "on_sim.h"

namespace sim_time_test {

using namespace on_sim;

struct Deep : torch::nn::Module {
  Deep() {
    for (int i = 0; i < 6; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(128, 128)));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (auto& layer : layers) x = torch::relu(layer(x));
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};

models::Batch batch_at(int step, int rows = 32) {
  auto random = models::generator(step);
  return {torch::randn({rows, 128}, random), torch::randint(128, {rows}, random, torch::kInt64)};
}

/// Compute and exchange take comparable times; enqueuing takes none, so that times are exact.
sim::Options machine(int devices) {
  return {.devices = devices,
          .arithmetic_per_second = 1e9,
          .link_bytes_per_second = 50e6,
          .link_latency = Seconds{0},
          .launch = Seconds{0}};
}

/// Virtual time of a step, once it goes as it will go on.
template <class Step>
Seconds time_of_steps(int steps, const Step& step) {
  const Seconds begin = sim::host_now();
  for (int i = 0; i < steps; ++i) step(i);
  return (sim::host_now() - begin) / steps;
}

Seconds time_of_step(const Exchanging& how, int devices) {
  sim::configure(machine(devices));
  MirroredOptions options = on_sim::options(sim_devices(devices));
  options.method.shards = devices;
  options.where.exchange = how;
  Mirrored<Deep> towers(options);
  towers.step(batch_at(0, 128), models::CrossEntropy{});
  return time_of_steps(3,
                       [&](int i) { towers.step(batch_at(i + 1, 128), models::CrossEntropy{}); });
}

TEST(SimTime, GradientsAreReducedWhileBackwardStillRuns) {
  const Seconds at_the_end = time_of_step({.bucket_bytes = 0}, 4);
  const Seconds in_buckets = time_of_step({.bucket_bytes = 64 << 10}, 4);
  EXPECT_LT(in_buckets, 0.9 * at_the_end);
}

TEST(SimTime, WithoutLaunchTimesTheTimeOfATrainingRepeatsExactly) {
  const Seconds first = time_of_step({.bucket_bytes = 64 << 10, .group = 2, .packs = 2}, 4);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(time_of_step({.bucket_bytes = 64 << 10, .group = 2, .packs = 2}, 4), first);
}

TEST(SimTime, TheTimelineShowsCopiesBesideBackward) {
  const auto time_beside = [](std::int64_t bucket_bytes) {
    sim::Options options = machine(2);
    options.timeline = true;
    sim::configure(options);
    MirroredOptions how = on_sim::options(sim_devices(2));
    how.where.exchange.bucket_bytes = bucket_bytes;
    Mirrored<Deep> towers(how);
    towers.step(batch_at(0), models::CrossEntropy{});  // sums the bytes of the weights as well
    const auto before = static_cast<std::ptrdiff_t>(sim::timeline().size());
    towers.step(batch_at(1), models::CrossEntropy{});
    auto spans = sim::timeline();
    spans.erase(spans.begin(), spans.begin() + before);
    Seconds beside{};
    for (const sim::Span& copy : spans) {
      if (copy.stream <= 1 || copy.name != "aten::copy_") continue;  // 0 computes, 1 takes input
      for (const sim::Span& other : spans)
        if (other.device == copy.device && other.stream == 0)
          beside += std::max(Seconds{},
                             std::min(copy.end, other.end) - std::max(copy.begin, other.begin));
    }
    return beside.count();
  };
  EXPECT_GT(time_beside(64 << 10), 10 * time_beside(0));
}

TEST(SimTime, PacksPipelineTheTwoStagesOfGroups) {
  const Seconds one = time_of_step({.bucket_bytes = 0, .group = 2, .packs = 1}, 4);
  const Seconds four = time_of_step({.bucket_bytes = 0, .group = 2, .packs = 4}, 4);
  EXPECT_LT(four, one);
}

TEST(SimTime, AStagedBatchIsCopiedWhileThePreviousStepComputes) {
  sim::Options options = machine(2);
  options.arithmetic_per_second = 10e9;
  options.link_bytes_per_second = 20e6;  // input takes about half as long as compute
  const auto run = [&](bool ahead) {
    sim::configure(options);
    MirroredOptions how = on_sim::options(sim_devices(2));
    how.method.shards = 2;
    Mirrored<Deep> towers(how);
    auto next = towers.stage(batch_at(0, 4096));
    Trained result;
    const Seconds time = time_of_steps(4, [&](int i) {
      StepReport report;
      if (ahead) {
        auto staged = std::move(next);
        next = towers.stage(batch_at(i + 1, 4096));
        report = towers.step(std::move(staged), models::CrossEntropy{});
      } else {
        report = towers.step(batch_at(i, 4096), models::CrossEntropy{});
      }
      result.losses.push_back(report.loss);
    });
    return std::pair(time, result.losses);
  };
  const auto [staged, losses] = run(true);
  const auto [plain, expected] = run(false);
  EXPECT_EQ(losses, expected);
  EXPECT_LT(staged, 0.9 * plain);
}

TEST(SimTime, AnUnusedParameterHangsNothing) {
  struct Half : Deep {
    torch::Tensor forward(torch::Tensor x) { return torch::relu(layers[2](x)); }
  };
  sim::configure(machine(3));
  MirroredOptions how = on_sim::options(sim_devices(3));
  how.where.exchange.bucket_bytes = 64 << 10;
  Mirrored<Half> towers(how);
  EXPECT_TRUE(towers.step(batch_at(0), models::CrossEntropy{}).applied);
  EXPECT_TRUE(towers.step(batch_at(1), models::CrossEntropy{}).applied);
}

struct Balanced {
  Seconds step{};
  Seconds shard{};  ///< forward and backward of one, on the first device
  std::vector<int> shards;
  State state;
};

Balanced run_balanced(const sim::Options& options, Balance balance) {
  sim::configure(options);
  MirroredOptions how = on_sim::options(sim_devices(4));
  how.where.balance = balance;
  Mirrored<Deep> towers(how);
  for (int step = 0; step < 6; ++step) towers.step(batch_at(step), models::CrossEntropy{});
  Balanced result;
  StepReport report;
  result.step = time_of_steps(
      4, [&](int i) { report = towers.step(batch_at(i + 6), models::CrossEntropy{}); });
  for (const TowerReport& tower : report.towers) result.shards.push_back(tower.shards);
  const TowerReport& first = report.towers.front();
  result.shard = (first.forward + first.backward) / first.shards;
  result.state = towers.state();
  return result;
}

TEST(SimTime, ASlowDeviceGetsFewerShardsAndTheWeightsAreTheSame) {
  sim::Options slow = machine(4), equal = machine(4);
  slow.link_bytes_per_second = equal.link_bytes_per_second = 2e9;
  slow.slowdown = {1, 1, 1, 3};
  const Balanced uniform = run_balanced(equal, Balance::even);
  const Balanced even = run_balanced(slow, Balance::even);
  const Balanced automatic = run_balanced(slow, Balance::automatic);
  EXPECT_EQ(even.shards, (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(automatic.shards[3], 1);
  // 8 shards on devices that take 1, 1, 1 and 3 a shard: no static split takes less than 3, that of
  // 3, 2, 2 and 1. The equal machine takes 2, so the best split takes one shard longer than that.
  EXPECT_LT(automatic.step, (uniform.step + uniform.shard) / 0.85);
  EXPECT_LT(automatic.step, 0.7 * even.step);
  EXPECT_EQ(first_difference(even.state, automatic.state), "");
  EXPECT_EQ(first_difference(uniform.state, automatic.state), "");
}

TEST(SimTime, TheReportHasTheDevicesTimesAndMemory) {
  sim::configure(machine(2));
  Mirrored<Deep> towers(on_sim::options(sim_devices(2)));
  const StepReport report = towers.step(batch_at(0), models::CrossEntropy{});
  for (const TowerReport& tower : report.towers) {
    EXPECT_GT(tower.forward.count(), 0);
    EXPECT_GT(tower.backward, tower.forward);
    EXPECT_GT(tower.update.count(), 0);
    EXPECT_GT(tower.peak_bytes, 6 * 128 * 128 * 4);
  }
}

TEST(SimTime, ATraceOfEveryStepHasItsStages) {
  sim::configure(machine(2));
  MirroredOptions how = on_sim::options(sim_devices(2));
  how.where.trace = std::make_shared<Trace>();
  Mirrored<Deep> towers(how);
  towers.step(batch_at(0), models::CrossEntropy{});
  const std::string json = how.where.trace->json();
  for (const char* word : {"sim:0", "sim:1", "forward", "backward", "reduce", "update"})
    EXPECT_NE(json.find(word), std::string::npos) << word;
}

}  // namespace sim_time_test
