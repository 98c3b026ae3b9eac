// The main job of ./demo: trains a small convnet on Fashion-MNIST, on one device and then on all
// devices, and says whether the two results are equal bit for bit.

#include <lockstep/idx.h>
#include <lockstep/lockstep.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "environment.h"
#include "net.h"
#include "placement_report.h"
#include "progress.h"

namespace {

using namespace lockstep;

struct DemoOptions {
  std::string devices = "auto";
  int shards = 0;  // 0: one a device, at least 4
  int batch = 128;
  int steps = 600;
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string placement = "soft";
  bool placement_report = false;
  std::string trace;
};

struct Result {
  State state;
  double samples_per_second = 0;
  double accuracy = 0;
};

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string plural(std::size_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

std::string losses(const StepReport& report) {
  std::string text = "loss " + format("%.3f", report.loss) + " (";
  for (const TowerReport& tower : report.towers)
    text += (&tower == &report.towers.front() ? "" : ", ") + tower.device + " " +
            format("%.3f", tower.loss);
  return text + ")";
}

double test_accuracy(Mirrored<Net>& towers, const LabelledImages& test) {
  std::vector<Batch> batches;
  for (std::int64_t begin = 0; begin < test.images.size(0); begin += 500)
    batches.push_back(batch_of(test, begin / 500, 500));
  return towers
      .evaluate(batches,
                [](Net& net, const Batch& batch) {
                  const auto rows = static_cast<double>(batch.data.size(0));
                  return Mean{accuracy(net.forward(batch.data), batch.target) * rows, rows};
                })
      .value();
}

/// Virtual on simulated devices.
Seconds now(const Device& device) {
  if (device.kind == DeviceKind::sim) return sim::host_now();
  return std::chrono::steady_clock::now().time_since_epoch();
}

Result train(const std::vector<Device>& devices, const DemoOptions& how,
             const std::shared_ptr<Trace>& trace, const LabelledImages& training,
             const LabelledImages& test) {
  Mirrored<Net> towers(
      {.devices = devices, .shards = how.shards, .optimizer = Adam{.lr = 1e-3}, .trace = trace});
  apps::Progress progress(plural(devices.size(), "device"), how.steps);
  const Seconds begin = now(devices.front());
  StepReport report;
  for (int step = 0; step < how.steps; ++step) {
    report = towers.step(batch_of(training, step, how.batch), [](Net& net, const Batch& shard) {
      return torch::nll_loss(net.forward(shard.data), shard.target);
    });
    const Seconds passed = now(devices.front()) - begin;
    const double speed = (step + 1) * how.batch / passed.count();
    progress.show(step + 1, format("%.0f samples/s  ", speed) + losses(report));
  }
  const std::string placed = apps::placement_report(report, apps::read_environment());
  const Seconds passed = now(devices.front()) - begin;
  Result result{towers.state(), how.steps * how.batch / passed.count(),
                test_accuracy(towers, test)};
  progress.finish(format("%6.0f samples/s, ", result.samples_per_second) + "test accuracy " +
                  format("%.2f %%, ", 100 * result.accuracy) + losses(report));
  if (how.placement_report) std::cout << placed;
  return result;
}

/// Simulated devices keep a timeline of every operator, in virtual time.
void write_trace(Trace& trace, const std::string& path) {
  for (const sim::Span& span : sim::timeline())
    trace.add("sim:" + std::to_string(span.device), "stream " + std::to_string(span.stream),
              span.name, span.begin, span.end);
  trace.write(path);
  std::cout << "trace: " << path << ", to open in chrome://tracing or Perfetto\n";
}

/// The devices asked for, and the simulated machine if they are on it.
std::vector<Device> make_devices(const DemoOptions& how) {
  const apps::Environment environment = apps::read_environment();
  sim::Options simulated = environment.sim ? sim::parse_options(*environment.sim) : sim::Options{};
  Inventory machine = inventory();
  machine.sims = simulated.devices;
  const Placement placement = how.placement == "soft" ? Placement::soft : Placement::strict;
  set_placement(placement);
  const Resolved used = resolve_devices(how.devices, placement, 1, machine);
  for (const std::string& note : used.notes) std::cout << "note: " << note << "\n";
  simulated.timeline = !how.trace.empty();
  if (used.devices.front().kind == DeviceKind::sim) sim::configure(simulated);
  return used.devices;
}

int run(DemoOptions how) {
  const auto devices = make_devices(how);
  const auto trace = how.trace.empty() ? nullptr : std::make_shared<Trace>();
  if (how.shards == 0) how.shards = std::max(4, static_cast<int>(devices.size()));
  std::cout << "Fashion-MNIST, a convnet with dropout, Adam: "
            << plural(static_cast<std::size_t>(how.steps), "step") << " of " << how.batch
            << " images in " << plural(static_cast<std::size_t>(how.shards), "shard") << "\n";
  if (const auto note = oversubscription(devices, inventory()); !note.empty())
    std::cout << note << "\n";
  const auto training = fashion_mnist(Subset::train, how.data);
  const auto test = fashion_mnist(Subset::test, how.data);
  const Result one =
      train({devices.front()}, how, devices.size() == 1 ? trace : nullptr, training, test);
  if (devices.size() == 1) {
    std::cout << "There is only one device; try --devices cpu:0-1.\n";
    if (trace) write_trace(*trace, how.trace);
    return 0;
  }
  const Result all = train(devices, how, trace, training, test);
  if (trace) write_trace(*trace, how.trace);
  std::cout << plural(devices.size(), "device") << ": "
            << format("%.2f", all.samples_per_second / one.samples_per_second)
            << " times the samples/s of one"
            << (devices.front().kind == DeviceKind::sim ? ", in virtual time\n" : "\n");
  const std::string difference = first_difference(one.state, all.state);
  if (difference.empty()) {
    std::cout << "weights, slots and gradients on 1 and on " << devices.size()
              << " devices: equal, bit for bit\n";
    return 0;
  }
  std::cout << "1 and " << devices.size() << " devices DIFFER: " << difference << "\n";
  return 1;
}

bool is_config_error(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const ConfigError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  DemoOptions how;
  CLI::App app("Trains a small convnet on Fashion-MNIST on one device, then on all, and compares.");
  app.option_defaults()->always_capture_default();
  app.add_option("--devices", how.devices,
                 "auto, cpu, gpu, cpu:0-3, gpu:0,2, ...; sim:0-3 are simulated accelerators, see "
                 "docs/sim.md");
  app.add_option(
         "--shards", how.shards,
         "parts of the global batch: what the result depends on; 0: one a device, at least 4")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--batch", how.batch, "images in a global batch")->check(CLI::Range(1, 10000));
  app.add_option("--steps", how.steps, "optimizer updates")->check(CLI::PositiveNumber);
  app.add_option("--data", how.data, "folder of the Fashion-MNIST files");
  app.add_option("--placement", how.placement,
                 "what a device cannot run, or a device that is not there: soft: the CPU takes its "
                 "place, and it is said; strict: it is an error")
      ->check(CLI::IsMember({"soft", "strict"}));
  app.add_flag("--placement-report", how.placement_report,
               "say where everything ran: devices, memory, operators that ran on the CPU instead");
  app.add_option("--trace", how.trace,
                 "write a timeline to this file (Chrome's trace format; virtual time on simulated "
                 "devices)");
  try {
    app.parse(argc, argv);
    return run(how);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const ConfigError& error) {
    std::cerr << "lockstep-demo: " << error.what() << "\n";
    return 2;
  } catch (const TowerError& error) {
    std::cerr << "lockstep-demo: " << error.what() << "\n";
    return is_config_error(error.cause) ? 2 : 1;
  } catch (const IoError& error) {
    std::cerr << "lockstep-demo: " << error.what()
              << "\nFashion-MNIST comes with Debian's package dataset-fashion-mnist; --data names "
                 "another folder.\n";
    return 2;
  } catch (const CorruptFile& error) {
    std::cerr << "lockstep-demo: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "lockstep-demo: " << error.what() << "\n";
    return 1;
  }
}
