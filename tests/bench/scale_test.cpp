// The model of links behind bench/scale beside trainings on simulated devices.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>
#include <lockstep/sim.h>

#include "scale_profile.h"

namespace scale_test {

using namespace lockstep;
using Batch = std::pair<torch::Tensor, torch::Tensor>;

struct Deep : torch::nn::Module {
  Deep() {
    for (int i = 0; i < 6; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(128, 128)));
  }
  /// The batch may still be on the host.
  torch::Tensor loss(const Batch& batch) {
    const torch::Device device = layers.front()->weight.device();
    torch::Tensor x = batch.first.to(device);
    const torch::Tensor labels = batch.second.to(device);
    for (auto& layer : layers) x = torch::relu(layer(x));
    return torch::cross_entropy_loss(x, labels);
  }
  std::vector<torch::nn::Linear> layers;
};

constexpr std::int64_t kRows = 32;  // of a device
constexpr std::int64_t kBucket = 64 << 10;

Batch batch_of(std::int64_t rows) {
  torch::manual_seed(1);
  return {torch::randn({rows, 128}), torch::randint(128, {rows}, torch::kInt64)};
}

/// Compute and exchange take comparable times; enqueuing takes none, so that times are exact.
sim::Options machine(double link) {
  return {.devices = 8,
          .arithmetic_per_second = 1e9,
          .memory_bytes_per_second = 1e9,
          .link_bytes_per_second = link,
          .link_latency = Seconds{20e-6},
          .launch = Seconds{0}};
}

Method method(int devices) {
  return {.shards = devices, .optimizer = Adam{}, .clip = {.global_norm = 1}};
}

/// Virtual seconds of a step of a real training.
double trained(int devices, int group) {
  MirroredOptions options{.method = method(devices),
                          .where = {.exchange = {.bucket_bytes = kBucket, .group = group}}};
  options.where.devices.clear();
  for (int i = 0; i < devices; ++i) options.where.devices.push_back({DeviceKind::sim, i});
  Mirrored<Deep> towers(options);
  const Batch batch = batch_of(kRows * devices);
  const auto step = [&] {
    towers.step(batch, [](Deep& model, const Batch& shard) { return model.loss(shard); });
  };
  step();
  const Seconds begin = sim::host_now();
  for (int i = 0; i < 3; ++i) step();
  return (sim::host_now() - begin).count() / 3;
}

/// The same, reckoned.
double reckoned(int devices, int group, const sim::Options& options) {
  Deep model;
  const bench::Cuts cuts(model, kBucket);
  model.to(torch::Device("sim:0"));
  bench::DeviceTimes times = bench::passes(model, cuts, batch_of(kRows));
  bench::add_update(times, cuts, devices, method(devices));
  const int together = group > 0 ? group : devices;
  const bench::Link link{options.link_bytes_per_second, options.link_latency.count()};
  return bench::step_time(bench::plan_of(cuts.layouts, cuts.buckets, devices, together),
                          {.group = together,
                           .inside = link,
                           .across = link,
                           .memory_bytes_per_second = options.memory_bytes_per_second},
                          times)
      .total;
}

TEST(Scale, StepsTakeWhatTheyTakeOnSimulatedDevices) {
  for (const double link : {50e6, 500e6})
    for (const auto& [devices, group] :
         std::vector<std::pair<int, int>>{{2, 0}, {4, 0}, {8, 0}, {4, 2}, {8, 2}, {8, 4}}) {
      const sim::Options options = machine(link);
      sim::configure(options);
      const double expected = trained(devices, group);
      // The threads of a real step come to a link in an order of their own.
      EXPECT_NEAR(reckoned(devices, group, options) / expected, 1, 0.1)
          << devices << " devices, groups of " << group << ", " << link << " bytes/s";
    }
}

TEST(Scale, MessagesTogetherTakeNoLongerThanOneByOne) {
  Deep model;
  const bench::Cuts cuts(model, kBucket);
  const auto plan = bench::plan_of(cuts.layouts, cuts.buckets, 64, 8);
  const bench::DeviceTimes times{.ready = std::vector<double>(cuts.buckets.size(), 1e-3),
                                 .computed = 2e-3};
  bench::Cluster cluster;
  const double one_by_one = step_time(plan, cluster, times).total;
  cluster.transfers = bench::Transfers::together;
  const double together = step_time(plan, cluster, times).total;
  EXPECT_LT(together, one_by_one);
  // 63 of 64 parts of the gradients, and of the parameters, come in by the slower of both links.
  const double least = 2e-3 + 56.0 / 64 * static_cast<double>(cuts.layouts.front().size) * 4 / 8 /
                                  cluster.across.bytes_per_second;
  EXPECT_GT(together, least);
}

}  // namespace scale_test
