// How close reduce + clip + update come to what the memory allows: the mlp workload's step beside a
// plain triad that moves the same bytes on the same threads. Prints one line of JSON.

#include <lockstep/lockstep.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "workloads.h"

namespace bench {
namespace {

constexpr int kRounds = 15;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// Seconds that reduce, clip and update took in a step: the slowest tower counts.
double exchange_seconds(const lockstep::StepReport& report) {
  double slowest = 0;
  for (const lockstep::TowerReport& tower : report.towers)
    slowest = std::max(slowest, (tower.reduce + tower.update).count());
  return slowest;
}

/// Threads that each add two arrays into a third, all at once: a = b + s * c.
class Triad {
 public:
  Triad(int threads, std::size_t floats) : arrays_(static_cast<std::size_t>(threads)) {
    for (Arrays& arrays : arrays_)
      for (auto* array : {&arrays.a, &arrays.b, &arrays.c}) array->assign(floats, 1.0F);
  }

  double seconds() {
    std::barrier start(static_cast<std::ptrdiff_t>(arrays_.size()));
    std::vector<double> times(arrays_.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < arrays_.size(); ++i)
        threads.emplace_back([&, i] {
          start.arrive_and_wait();
          times[i] = run(arrays_[i]);
        });
    }
    return *std::max_element(times.begin(), times.end());
  }

 private:
  struct Arrays {
    std::vector<float> a, b, c;
  };

  static double run(Arrays& arrays) {
    const auto begin = std::chrono::steady_clock::now();
    float* a = arrays.a.data();
    const float *b = arrays.b.data(), *c = arrays.c.data();
    const std::size_t n = arrays.a.size();
#pragma GCC ivdep
    for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + 0.5F * c[i];
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  std::vector<Arrays> arrays_;
};

nlohmann::ordered_json measure(int devices) {
  lockstep::MirroredOptions options = Mlp::options();
  options.where.devices = lockstep::cpu_devices(devices);
  options.method.shards = devices;
  options.method.clip.global_norm = 1e-3;  // below the gradient's norm: every step is clipped
  lockstep::Mirrored<Mlp> towers(options);
  towers.model().fill();
  const auto batches = Mlp::batches();
  const auto step = [&](int i) {
    return towers.step(batches[static_cast<std::size_t>(i) % batches.size()],
                       [](Mlp& model, const Mlp::Batch& shard) { return model.loss(shard); });
  };
  std::int64_t parameters = 0;
  for (const auto& parameter : towers.state().parameters) parameters += parameter.value.numel();

  // A tower reads the gradient of every shard and writes their sum; then it reads parameter,
  // gradient and two slots and writes parameter and slots: devices + 1 + 4 + 3 floats an element.
  const double floats = static_cast<double>(parameters) * (devices + 8);
  Triad triad(devices, static_cast<std::size_t>(floats / 3 / devices));
  std::vector<double> exchange, plain;
  for (int i = 0; i < kRounds; ++i) {
    const lockstep::StepReport report = step(i);
    lockstep::check(report.clipped, "every step is meant to be clipped");
    exchange.push_back(exchange_seconds(report));
    plain.push_back(triad.seconds());
  }
  return {{"devices", devices},
          {"params", parameters},
          {"bytes", floats * sizeof(float)},
          {"exchange_ms", 1e3 * median(exchange)},
          {"triad_ms", 1e3 * median(plain)},
          {"ratio", median(exchange) / median(plain)}};
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  CLI::App app("Times reduce + clip + update beside a triad over the same bytes.");
  int devices = 2;
  app.add_option("--devices", devices, "towers, and threads of the triad")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    std::cout << bench::measure(devices).dump() << std::endl;
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
