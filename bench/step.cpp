// Times training steps of one workload, as the peers (the same workloads in other frameworks, see
// bench/peers) do, and prints the same report.
//
//   step chat --devices 2
//   step chat --devices 2 --strategy delay
//
// prints one line of JSON with the peers' fields. Exit code 2: bad input. In asynchronous training,
// `delay` and `free`, each device trains on its part of a batch and updates the weights by itself,
// as in peer_hogwild.py; a step is as many updates as there are devices.
//
// With a launcher's variables (see lockstep::launched) this process is one of several machines, and
// has its part of the devices; the first one prints. bench/machines.py starts them.

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <lockstep/lockstep.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "ssd.h"
#include "workloads.h"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmup = 5;   // steps before the measured window
constexpr int kMinimum = 3;  // steps in the window
constexpr int kRounds = 5;   // of step and compute alone after it

struct Arguments {
  std::string workload;
  int devices = 1;
  int threads = 1;  // of one device
  std::string strategy = "mirrored";
  std::int64_t bucket_bytes = lockstep::Exchanging{}.bucket_bytes;
  double seconds = 10;  // length of the measured window
  std::shared_ptr<lockstep::Machines> machines = nullptr;

  bool first() const { return !machines || machines->rank() == 0; }
  int own_devices() const { return devices / (machines ? machines->size() : 1); }
};

struct Measured {
  double step_s = 0;  // mean over the window
  double startup_s = 0;
  double peak_rss_mb = 0;
  std::vector<double> first_losses;
  double sync_s = 0;  // median of what a step takes longer than its two passes alone
};

/// Keeps this process to the first `count` of the cores it may use. Threads started later inherit
/// this.
void bind_to_cores(int count) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) {
    throw std::system_error(errno, std::generic_category(), "sched_getaffinity");
  }
  int kept = 0;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &cores) && kept++ >= count) CPU_CLR(core, &cores);
  }
  if (sched_setaffinity(0, sizeof cores, &cores) != 0) {
    throw std::system_error(errno, std::generic_category(), "sched_setaffinity");
  }
}

/// Seconds since this process was started.
double seconds_since_start() {
  std::ifstream file("/proc/self/stat");
  std::string stat((std::istreambuf_iterator<char>(file)), {});
  // Field 22 is the start in clock ticks; the second field, in parentheses, may contain spaces.
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::vector<std::string> words(std::istream_iterator<std::string>(fields), {});
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) -
         std::stod(words.at(19)) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// The peak resident size of this process.
double peak_rss_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

template <class Action>
double seconds_of(Action&& action) {
  const Clock::time_point begin = Clock::now();
  action();
  return seconds_since(begin);
}

/// The first machine's number, for all.
std::int64_t agreed(lockstep::Machines& machines, std::int64_t number) {
  const lockstep::Bytes first = machines.all_gather(std::as_bytes(std::span(&number, 1))).front();
  std::memcpy(&number, first.data(), sizeof number);
  return number;
}

/// Mean seconds of a step over a window of `seconds`, at least kMinimum steps. Several machines
/// agree on their number beforehand.
template <class Step>
double window(Step&& step, double seconds, lockstep::Machines* machines) {
  step();
  if (machines) {
    const double once = seconds_of([&] { step(); });
    const auto count =
        agreed(*machines, std::max<std::int64_t>(kMinimum, std::llround(seconds / once)));
    return seconds_of([&] {
             for (std::int64_t i = 0; i < count; ++i) step();
           }) /
           static_cast<double>(count);
  }
  const Clock::time_point begin = Clock::now();
  int count = 0;
  while (count < kMinimum || seconds_since(begin) < seconds) {
    step();
    ++count;
  }
  return seconds_since(begin) / count;
}

/// Median seconds that a step takes longer than its forward and backward pass alone.
template <class Step, class Compute>
double exposed(Step&& step, Compute&& compute) {
  compute();
  std::array<double, kRounds> differences;
  for (double& difference : differences) {
    const double alone = seconds_of(compute);
    difference = seconds_of(step) - alone;
  }
  std::sort(differences.begin(), differences.end());
  return differences[kRounds / 2];
}

/// The peers' protocol. `step` does a training step and returns its loss.
template <class Step, class Compute>
Measured benchmark(const Arguments& arguments, Step&& step, Compute&& compute) {
  Measured result;
  result.first_losses.push_back(step());
  result.startup_s = seconds_since_start();
  for (int count = 0; count < 2; ++count) result.first_losses.push_back(step());
  for (std::size_t count = result.first_losses.size(); count < kWarmup; ++count) step();
  result.step_s = window(step, arguments.seconds, arguments.machines.get());
  result.peak_rss_mb = peak_rss_mb();
  result.sync_s = exposed(step, compute);
  return result;
}

/// `value` to four decimal places.
double rounded(double value) {
  std::array<char, 400> text;
  std::snprintf(text.data(), text.size(), "%.4f", value);
  return std::strtod(text.data(), nullptr);
}

nlohmann::ordered_json report(const Arguments& arguments, std::int64_t batch, std::int64_t params,
                              const Measured& measured) {
  std::vector<double> losses;
  for (double loss : measured.first_losses) losses.push_back(rounded(loss));
  return {{"peer", "lockstep"},
          {"workload", arguments.workload},
          {"devices", arguments.devices},
          {"threads", arguments.threads},
          {"samples_per_s", rounded(static_cast<double>(batch) / measured.step_s)},
          {"step_ms", rounded(1e3 * measured.step_s)},
          {"startup_s", rounded(measured.startup_s)},
          {"peak_rss_mb", rounded(measured.peak_rss_mb)},
          {"params", params},
          {"first_losses", losses},
          {"sync_ms", rounded(1e3 * measured.sync_s)}};
}

std::int64_t trainable(const torch::nn::Module& model) {
  std::int64_t count = 0;
  for (const Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) count += parameter.numel();
  }
  return count;
}

/// Updates of the parts of a batch, one a device, in any of both orders.
template <class Model>
nlohmann::ordered_json run_async(const Arguments& arguments, lockstep::AsyncOptions options) {
  using Batch = typename Model::Batch;
  options.method.shards = 1;
  options.method.async = lockstep::Asynchrony{
      .order = arguments.strategy == "free" ? lockstep::Order::free : lockstep::Order::delay};
  lockstep::Async<Model> towers(options);
  towers.model().fill();
  const std::vector<Batch> batches = Model::batches();
  std::size_t steps = 0;
  const auto loss = [](Model& model, const Batch& shard) { return model.loss(shard); };
  const auto step = [&] {
    const Batch& batch = batches[steps++ % batches.size()];
    double sum = 0;
    for (int part = 0; part < arguments.devices; ++part)
      if (const auto report =
              towers.step(lockstep::batch::part(batch, part, arguments.devices), loss))
        sum += report->loss;
    return sum / arguments.devices;
  };
  const Measured measured = benchmark(arguments, step, step);
  return report(arguments, Model::kGlobalBatch, trainable(towers.model()), measured);
}

template <class Model>
nlohmann::ordered_json run(const Arguments& arguments) {
  using Batch = typename Model::Batch;
  // Of this thread: OpenMP counted the cores before the process was bound to some of them.
  at::set_num_threads(arguments.own_devices() * arguments.threads);
  lockstep::MirroredOptions options = Model::options();
  options.where.devices = lockstep::cpu_devices(arguments.own_devices(), arguments.threads);
  options.where.machines = arguments.machines;
  options.where.exchange.bucket_bytes = arguments.bucket_bytes;
  if (arguments.strategy != "mirrored") return run_async<Model>(arguments, options);
  options.method.shards = arguments.devices;  // as the peers cut a batch: one part a device
  lockstep::Mirrored<Model> towers(options);
  towers.model().fill();

  const std::vector<Batch> batches = Model::batches();
  std::size_t steps = 0;
  auto next = [&]() -> const Batch& { return batches[steps++ % batches.size()]; };
  auto loss = [](Model& model, const Batch& shard) { return model.loss(shard); };
  const Measured measured = benchmark(
      arguments, [&] { return towers.step(next(), loss).loss; },
      [&] { towers.compute(next(), loss); });
  return report(arguments, Model::kGlobalBatch, trainable(towers.model()), measured);
}

struct Workload {
  std::int64_t global_batch = 0;
  std::function<nlohmann::ordered_json(const Arguments&)> run;
};

template <class Model>
Workload workload() {
  return {Model::kGlobalBatch, run<Model>};
}

std::map<std::string, Workload> workloads() {
  return {{"chat", workload<Chat>()},
          {"cifar", workload<Cifar>()},
          {"mlp", workload<Mlp>()},
          {"mobilenet", workload<MobileNet>()},
          {"ssd", workload<Ssd>()}};
}

void add_options(CLI::App& app, Arguments& arguments) {
  std::vector<std::string> names;
  for (const auto& [name, workload] : workloads()) names.push_back(name);
  app.add_option("workload", arguments.workload, "what to train")
      ->required()
      ->check(CLI::IsMember(names));
  app.add_option("--devices", arguments.devices, "towers; each trains on an equal part of a batch")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--threads", arguments.threads, "threads of a device, if there is only one")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--strategy", arguments.strategy, "mirrored, or asynchronous: delay or free")
      ->check(CLI::IsMember({"mirrored", "delay", "free"}))
      ->capture_default_str();
  app.add_option("--bucket-bytes", arguments.bucket_bytes, "between machines, see Exchanging")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--seconds", arguments.seconds, "length of the measured window")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
}

/// Throws CLI::ValidationError if the options do not fit together.
void check_options(const Arguments& arguments) {
  if (arguments.devices > 1 && arguments.threads > 1) {
    throw CLI::ValidationError("--threads", "only one device may have more than one thread");
  }
  const std::int64_t batch = workloads().at(arguments.workload).global_batch;
  if (batch % arguments.devices != 0) {
    throw CLI::ValidationError("--devices", std::to_string(arguments.devices) +
                                                " devices do not divide the global batch of " +
                                                std::to_string(batch));
  }
}

int run_command_line(int argc, char** argv) {
  CLI::App app("Times training steps of one workload; prints one line of JSON.");
  Arguments arguments;
  add_options(app, arguments);
  try {
    app.parse(argc, argv);
    check_options(arguments);
  } catch (const CLI::Error& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto variable = [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
  if (const auto machines = lockstep::launched(variable)) arguments.machines = join(*machines);
  bind_to_cores(arguments.own_devices() * arguments.threads);
  const auto line = workloads().at(arguments.workload).run(arguments).dump();
  if (arguments.first()) std::cout << line << std::endl;
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  try {
    return bench::run_command_line(argc, argv);
  } catch (const lockstep::ConfigError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
