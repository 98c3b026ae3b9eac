// Times and memory of a pipeline of equal layers, on simulated devices in virtual time; checks that
// the weights are those of one device.
//
//   pipeline             prints a line for each shape; takes five minutes
//   pipeline TRACE.json  prints the plan of 4 stages, and writes a trace of two steps with 8 shards

#include <lockstep/checkpoint.h>
#include <lockstep/lockstep.h>
#include <lockstep/sim.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace bench {
namespace {

using namespace lockstep;
using Batch = std::pair<torch::Tensor, torch::Tensor>;

constexpr int kLayers = 16, kWidth = 512, kRows = 1024;  // of a shard

struct Chain : torch::nn::Module {
  Chain() {
    for (int i = 0; i < kLayers; ++i) {
      body->push_back(torch::nn::Linear(kWidth, kWidth));
      body->push_back(torch::nn::Tanh());
    }
    register_module("body", body);
  }
  torch::nn::Sequential body;
};

Batch batch_of(int shards) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{1});
  return {torch::randn({shards * kRows, kWidth}, random),
          torch::randn({shards * kRows, kWidth}, random)};
}

LayerStages<Chain, Batch> loss_in(int stages) {
  std::vector<std::size_t> cut;
  for (int i = 1; i < stages; ++i)
    cut.push_back(static_cast<std::size_t>(2 * kLayers * i / stages));
  return sequential_stages<Chain, Batch>(
      [](Chain& net) -> torch::nn::Sequential& { return net.body; },
      [](const Batch& b) { return b.first; },
      [](Chain&, const torch::Tensor& out, const Batch& b) {
        return torch::mse_loss(out, b.second);
      },
      Cut::by_hand(cut));
}

struct Run {
  double milliseconds = 0;  // of the second step: forward, backward and waiting
  std::vector<std::int64_t> peaks;
  std::vector<std::string> notes;
  State state;
};

Run run(int stages, int shards, const sim::Options& machine, bool recompute, int ahead,
        const std::shared_ptr<Trace>& trace = nullptr) {
  sim::configure(machine);
  std::vector<Device> devices;
  for (int i = 0; i < stages; ++i) devices.push_back({DeviceKind::sim, i});
  Pipeline<Chain> towers({.method = {.shards = shards, .optimizer = Adam{}},
                          .where = {.devices = devices, .trace = trace},
                          .stages = stages,
                          .recompute = recompute,
                          .ahead = ahead});
  Run result;
  for (int step = 0; step < 2; ++step) {
    const StepReport report = towers.step(towers.stage(batch_of(shards)), loss_in(stages));
    const TowerReport& first = report.towers.front();
    result.milliseconds = 1e3 * (first.forward + first.backward + first.wait).count();
    if (step == 0) result.notes = report.notes;
    result.peaks.clear();
    for (const TowerReport& tower : report.towers) result.peaks.push_back(tower.peak_bytes);
  }
  result.state = towers.state();
  return result;
}

void tell(const char* title, const sim::Options& machine, bool recompute, int ahead) {
  std::printf("%s\n", title);
  for (const int shards : {4, 8, 16}) {
    const Run one = run(1, shards, machine, false, 0);
    for (const int stages : {2, 4}) {
      const Run many = run(stages, shards, machine, recompute, ahead);
      const double efficiency = one.milliseconds / (stages * many.milliseconds);
      std::printf(
          "  %2d shards, %d stages: %6.2f ms, one device %6.2f ms; efficiency %.3f, "
          "m / (m + p - 1) is %.3f; peak MB:",
          shards, stages, many.milliseconds, one.milliseconds, efficiency,
          static_cast<double>(shards) / (shards + stages - 1));
      for (const std::int64_t peak : many.peaks)
        std::printf(" %.1f", static_cast<double>(peak) / 1e6);
      std::printf(" (one: %.1f); the same weights: %s\n", static_cast<double>(one.peaks[0]) / 1e6,
                  first_difference(one.state, many.state).empty() ? "yes" : "NO");
    }
  }
}

int main_of(int count, char** arguments) {
  sim::Options fast{.devices = 4, .link_bytes_per_second = 1e12, .launch = Seconds{0}};
  fast.link_latency = Seconds{0};
  const sim::Options plain{.devices = 4, .launch = Seconds{0}};
  if (count < 2) {
    tell("fast links:", fast, false, 0);
    tell("links of 12 GB/s with 10 us:", plain, false, 0);
    tell("links of 12 GB/s with 10 us, one ahead:", plain, false, 1);
    tell("fast links, recomputed:", fast, true, 0);
    return 0;
  }
  const auto trace = std::make_shared<Trace>();
  const Run shown = run(4, 8, fast, false, 0, trace);
  for (const std::string& note : shown.notes) std::cout << note << "\n";
  trace->write(arguments[1]);
  return 0;
}

}  // namespace
}  // namespace bench

int main(int count, char** arguments) try {
  return bench::main_of(count, arguments);
} catch (const std::exception& error) {
  std::cerr << "error: " << error.what() << "\n";
  return 1;
}
