// Compares the ways to train on several devices where they differ: batches that take different
// times, and devices of different speeds. Prints a table of samples/s, each as a ratio to one
// device.
//
//   strategies                    # two CPU devices, real time
//   strategies --devices sim      # simulated ones, in virtual time
//   strategies --trace FOLDER     # traces of both on three simulated devices
//
// One model, an LSTM over sequences of one length or of lengths from 10 to 50. A synchronous step
// trains on two of them a device, each a shard; an asynchronous update on one.

#include <lockstep/lockstep.h>
#include <lockstep/sim.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <random>

namespace {

using namespace lockstep;

constexpr int kRows = 16, kInputs = 64, kHidden = 256, kClasses = 10;

struct Net : torch::nn::Module {
  Net() {
    in = register_module("in", torch::nn::Linear(kInputs, kHidden));
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(kHidden, kHidden)));
    out = register_module("out", torch::nn::Linear(kHidden, kClasses));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return out(std::get<0>(lstm(torch::relu(in(x.transpose(0, 1))))).mean(0));
  }
  torch::nn::Linear in = nullptr, out = nullptr;
  torch::nn::LSTM lstm = nullptr;
};

/// Sequences of one length, and their classes.
using Sequences = std::pair<torch::Tensor, torch::Tensor>;

Sequences sequences(int number, bool uneven) {
  std::mt19937_64 random(static_cast<std::uint64_t>(number) * 977 + 13);
  const auto length = uneven ? 10 + static_cast<std::int64_t>(random() % 41) : 30;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(random());
  return {torch::randn({kRows, length, kInputs}, generator),
          torch::randint(0, kClasses, {kRows}, generator, torch::kInt64)};
}

/// A global batch whose shards have lengths of their own: nothing is padded.
struct Batch {
  std::vector<Sequences> parts;
  Batch shard(int i, int n) const {
    Batch own;
    for (std::size_t part = 0; part < parts.size(); ++part)
      if (part * static_cast<std::size_t>(n) / parts.size() == static_cast<std::size_t>(i))
        own.parts.push_back(parts[part]);
    return own;
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(parts.size()) * kRows; }
  Batch to(torch::Device device) const {
    Batch moved = *this;
    for (auto& [data, target] : moved.parts) {
      data = data.to(device);
      target = target.to(device);
    }
    return moved;
  }
};

torch::Tensor loss(Net& net, const Batch& shard) {
  torch::Tensor sum;
  for (const auto& [data, target] : shard.parts) {
    const auto own = torch::cross_entropy_loss(net.forward(data), target);
    sum = sum.defined() ? sum + own : own;
  }
  return sum / static_cast<double>(shard.parts.size());
}

struct How {
  std::string name;
  Balance balance = Balance::even;
  std::optional<Asynchrony> async = std::nullopt;
};

struct Case {
  std::vector<Device> devices;
  bool uneven = false;
  int updates = 200;
  std::shared_ptr<Trace> trace = nullptr;
};

/// Samples a second, the first steps left out.
double speed(const How& how, const Case& on) {
  MirroredOptions options{
      .method = {.optimizer = Adam{.lr = 1e-3}, .async = how.async},
      .where = {.devices = on.devices, .balance = how.balance, .trace = on.trace}};
  const int each = how.async ? 1 : 2 * static_cast<int>(on.devices.size());
  options.method.shards = each;
  const auto batch = [&](int step) {
    Batch made;
    for (int part = 0; part < each; ++part)
      made.parts.push_back(sequences(step * each + part, on.uneven));
    return made;
  };
  const int steps = on.updates / each, warm_up = std::max(2, steps / 10);
  const auto measure = [&](auto& towers) {
    std::vector<Batch> batches;
    for (int step = 0; step < steps; ++step) batches.push_back(batch(step));
    Seconds begin{};
    for (int step = 0; step < steps; ++step) {
      if (step == warm_up) begin = towers.now();
      towers.step(batches[static_cast<std::size_t>(step)], loss);
    }
    return static_cast<double>((steps - warm_up) * each * kRows) / (towers.now() - begin).count();
  };
  if (how.async) {
    Async<Net> towers(options);
    return measure(towers);
  }
  Mirrored<Net> towers(options);
  return measure(towers);
}

const std::vector<How> kHow = {
    {.name = "synchronous"},
    {.name = "synchronous, balance", .balance = Balance::automatic},
    {.name = "delay 1", .async = Asynchrony{.delay = 1}},
    {.name = "delay 3", .async = Asynchrony{.delay = 3}},
    {.name = "delay 7", .async = Asynchrony{.delay = 7}},
    {.name = "free", .async = Asynchrony{.order = Order::free}},
    {.name = "free, staleness at most 3",
     .async = Asynchrony{.order = Order::free, .staleness = 3}},
};

void print(const std::string& title, const Case& on, int rounds) {
  Case alone = on;
  alone.devices.resize(1);
  std::vector<double> best(kHow.size() + 1);
  for (int round = 0; round < rounds; ++round) {  // interleaved: the machine may be busy
    best[0] = std::max(best[0], speed(kHow.front(), alone));
    for (std::size_t i = 0; i < kHow.size(); ++i)
      best[i + 1] = std::max(best[i + 1], speed(kHow[i], on));
  }
  for (std::size_t i = 0; i < kHow.size(); ++i)
    std::printf("| %s | %s | %.2f |\n", title.c_str(), kHow[i].name.c_str(), best[i + 1] / best[0]);
  std::fflush(stdout);
}

/// What devices do, synchronously and with a delay, on the same batches.
void write_traces(const std::string& folder) {
  for (const std::size_t how : {0, 3}) {
    sim::configure({.devices = 3, .launch = Seconds(0)});
    const auto trace = std::make_shared<Trace>();
    speed(kHow[how],
          {.devices = parse_devices("sim:0-2"), .uneven = true, .updates = 48, .trace = trace});
    trace->write(folder + "/" + (how == 0 ? "synchronous" : "delay") + ".json");
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Compares synchronous and asynchronous training on even and uneven work.");
  std::string devices = "cpu";
  std::string traces;
  int updates = 400, rounds = 3;
  app.add_option("--devices", devices, "cpu or sim")->check(CLI::IsMember({"cpu", "sim"}));
  app.add_option("--updates", updates, "batches of each measurement")
      ->check(CLI::Range(80, 100000));
  app.add_option("--rounds", rounds, "of which the best counts, in real time");
  app.add_option("--trace", traces,
                 "write synchronous.json and delay.json here, and measure nothing");
  CLI11_PARSE(app, argc, argv);
  if (!traces.empty()) {
    write_traces(traces);
    return 0;
  }
  std::printf("| case | strategy | samples/s, one device = 1 |\n| --- | --- | --- |\n");
  if (devices == "cpu") {
    for (const bool uneven : {false, true})
      print(uneven ? "two CPU devices, uneven batches" : "two CPU devices, even batches",
            {.devices = cpu_devices(2), .uneven = uneven, .updates = updates}, rounds);
    return 0;
  }
  for (const std::vector<double>& slowdown : {std::vector<double>{1, 1, 1, 1}, {1, 1, 1, 3}})
    for (const bool uneven : {false, true}) {
      sim::configure({.devices = 4, .launch = Seconds(0), .slowdown = slowdown});
      print(std::string("four simulated devices") +
                (slowdown[3] > 1 ? ", one 3 times slower" : "") +
                (uneven ? ", uneven batches" : ", even batches"),
            {.devices = parse_devices("sim:0-3"), .uneven = uneven, .updates = updates}, 1);
    }
  return 0;
}
