// Times programs of the kind that people port (ports_models.h), beside their originals:
//
//   ports --rounds 9 darknet transfer
//
// prints a line of JSON a program: for each column the median, over rounds, of its time divided by
// the original's of the same round. Columns:
//   original  plain LibTorch on all threads, torch::optim
//   halves    plain LibTorch, a thread for each half of the batch, forward and backward only: what
//             the machine can do with two shards
//   quarters  the same with two quarters for each thread, one after the other
//   shards 2, shards 4  Mirrored on two CPU devices
// The original's threads burn CPU while they wait, and more the busier the machine is; with
// OMP_WAIT_POLICY=passive they sleep, and CPU times can be compared.
// The programs run on the system's allocator, as a user's do; LD_PRELOAD another one to compare.

#include <sys/resource.h>
#include <time.h>

#include <lockstep/lockstep.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ports_models.h"

namespace bench {
namespace {

constexpr int kDevices = 2;

struct Arguments {
  int rounds = 9;
  double seconds = 0.3;  // of the original in a round, at least one step
  std::vector<std::string> ports, columns;
};

/// What some steps took.
struct Cost {
  double wall = 0, cpu = 0, faults = 0;
};

Cost now() {
  timespec cpu{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now().time_since_epoch();
  return {wall.count(), static_cast<double>(cpu.tv_sec) + 1e-9 * static_cast<double>(cpu.tv_nsec),
          static_cast<double>(usage.ru_minflt)};
}

/// A program: `step` trains one step on the same batch again and again.
struct Column {
  std::string name;
  std::function<std::function<void()>()> make;
  std::function<void()> step = nullptr;
  std::vector<Cost> rounds = {};

  void run(int steps) {
    at::set_num_threads(kDevices);  // of the original; other threads have set their own since
    const Cost begin = now();
    for (int i = 0; i < steps; ++i) step();
    const Cost end = now();
    rounds.push_back({(end.wall - begin.wall) / steps, (end.cpu - begin.cpu) / steps,
                      (end.faults - begin.faults) / steps});
  }
};

template <class Model>
std::function<void()> original(const Batch& batch) {
  auto model = std::make_shared<Model>();
  std::vector<Tensor> trained;
  for (const Tensor& parameter : model->parameters())
    if (parameter.requires_grad()) trained.push_back(parameter);
  auto adam = std::make_shared<torch::optim::Adam>(trained, torch::optim::AdamOptions(1e-4));
  return [=] {
    adam->zero_grad();
    const Tensor loss = model->loss(batch);
    loss.backward();
    adam->step();
    loss.item<float>();
  };
}

/// Two threads, each with a model and half of the `parts` of the batch.
template <class Model>
class Halves {
 public:
  Halves(const Batch& batch, int parts) {
    for (int i = 0; i < kDevices; ++i)
      threads_.emplace_back([this, i, batch, parts](const std::stop_token& stop) {
        at::get_num_threads();
        at::internal::lazy_init_num_threads();
        at::set_num_threads(1);
        Model model;
        const int each = parts / kDevices;
        std::vector<Batch> own;
        for (int part = i * each; part < (i + 1) * each; ++part)
          own.push_back(lockstep::batch::part(batch, part, parts));
        for (;;) {
          turn_.arrive_and_wait();
          if (stop.stop_requested()) return;
          model.zero_grad();
          for (const Batch& part : own) model.loss(part).backward();
          turn_.arrive_and_wait();
        }
      });
  }
  ~Halves() {
    for (std::jthread& thread : threads_) thread.request_stop();
    turn_.arrive_and_wait();
  }
  void step() {
    turn_.arrive_and_wait();
    turn_.arrive_and_wait();
  }

 private:
  std::barrier<> turn_{kDevices + 1};
  std::vector<std::jthread> threads_;
};

template <class Model>
std::function<void()> halves(const Batch& batch, int parts) {
  const auto pair = std::make_shared<Halves<Model>>(batch, parts);
  return [pair] { pair->step(); };
}

template <class Model>
std::function<void()> mirrored(const Batch& batch, int shards) {
  const auto towers = std::make_shared<lockstep::Mirrored<Model>>(lockstep::MirroredOptions{
      .method = {.shards = shards, .optimizer = lockstep::Adam{.lr = 1e-4}},
      .where = {.devices = lockstep::cpu_devices(kDevices, 1)}});
  return
      [=] { towers->step(batch, [](Model& model, const Batch& own) { return model.loss(own); }); };
}

template <class Original, class Port = Original>
std::vector<Column> columns() {
  const Batch batch = Original::batch();
  return {{"original", [batch] { return original<Original>(batch); }},
          {"halves", [batch] { return halves<Port>(batch, 2); }},
          {"quarters", [batch] { return halves<Port>(batch, 4); }},
          {"shards 2", [batch] { return mirrored<Port>(batch, 2); }},
          {"shards 4", [batch] { return mirrored<Port>(batch, 4); }}};
}

const std::map<std::string, std::function<std::vector<Column>()>>& ports() {
  static const std::map<std::string, std::function<std::vector<Column>()>> all = {
      {"line", columns<Line>},         {"regression", columns<Regression>},
      {"darknet", columns<Darknet>},   {"cyclegan", columns<CycleGan>},
      {"dcgan", columns<Dcgan>},       {"transfer", columns<Transfer>},
      {"language", columns<Language>}, {"script", columns<ScriptTransfer, ScriptTransferPort>}};
  return all;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

double rounded(double value) { return std::round(value * 1000) / 1000; }

nlohmann::ordered_json time_port(const std::string& name, const Arguments& arguments) {
  torch::manual_seed(1);
  std::vector<Column> all = ports().at(name)();
  if (!arguments.columns.empty())
    std::erase_if(all, [&](const Column& column) {
      return std::ranges::find(arguments.columns, column.name) == arguments.columns.end();
    });
  for (Column& column : all) column.step = column.make();
  for (Column& column : all)
    for (int i = 0; i < 3; ++i) column.run(1);
  const int steps =
      std::max(1, static_cast<int>(arguments.seconds / all.front().rounds.back().wall));
  for (Column& column : all) column.rounds.clear();
  for (int round = 0; round < arguments.rounds; ++round)
    for (Column& column : all) column.run(steps);
  nlohmann::ordered_json line{{"port", name}};
  const std::vector<Cost>& first = all.front().rounds;
  for (const Column& column : all) {
    std::vector<double> wall, cpu, faults, milliseconds, cpu_milliseconds;
    for (std::size_t i = 0; i < first.size(); ++i) {
      wall.push_back(column.rounds[i].wall / first[i].wall);
      cpu.push_back(column.rounds[i].cpu / first[i].cpu);
      faults.push_back(column.rounds[i].faults);
      milliseconds.push_back(1e3 * column.rounds[i].wall);
      cpu_milliseconds.push_back(1e3 * column.rounds[i].cpu);
    }
    line[column.name] = {{"time", rounded(median(wall))},
                         {"cpu", rounded(median(cpu))},
                         {"ms", rounded(median(milliseconds))},
                         {"cpu_ms", rounded(median(cpu_milliseconds))},
                         {"page_faults", std::round(median(faults))}};
  }
  return line;
}

int run_command_line(int argc, char** argv) {
  CLI::App app("Times programs that people port beside their originals; lines of JSON.");
  Arguments arguments;
  std::vector<std::string> names;
  for (const auto& [name, make] : ports()) names.push_back(name);
  app.add_option("ports", arguments.ports, "which; all if none")->check(CLI::IsMember(names));
  app.add_option("--columns", arguments.columns, "which; all if none; the first is 1");
  app.add_option("--rounds", arguments.rounds, "columns in turn; medians count")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--seconds", arguments.seconds, "of the first column in a round")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::Error& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  at::internal::lazy_init_num_threads();  // or the first kernel would take the last count of all
  for (const std::string& name : arguments.ports.empty() ? names : arguments.ports)
    std::cout << time_port(name, arguments) << std::endl;
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) { return bench::run_command_line(argc, argv); }
