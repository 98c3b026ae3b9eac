// `lockstep scaling`: samples per second on 1 to N devices, and what limits them.

#include <lockstep/error.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>

#include "commands.h"
#include "console.h"
#include "device_flags.h"
#include "exit_codes.h"
#include "family_program.h"
#include "flag_checks.h"
#include "init_weights.h"
#include "recipe/family.h"
#include "recipe_flags.h"
#include "run_folder.h"
#include "scaling_plot.h"
#include "signals.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

struct ScalingFlags : RecipeFlags {
  DeviceFlags where;
  std::vector<int> counts;
  double seconds = 5;
  std::string plot = "scaling.svg";
};

/// A signal came.
struct Stopped {};

/// Where the time of the towers went, as parts of all of it.
struct TimeSplit {
  double compute = 0, input = 0, wait = 0, reduce = 0, update = 0;

  void add(const StepReport& step) {
    for (const TowerReport& tower : step.towers) {
      compute += (tower.forward + tower.backward).count();
      input += tower.input.count();
      wait += tower.wait.count();
      reduce += tower.reduce.count();
      update += tower.update.count();
    }
  }

  /// The largest part that more devices did not make smaller, if it is worth a word. `waiting`:
  /// what for. `slower`: how much longer than on one device computing a sample takes.
  std::string largest(const std::string& waiting, double slower) const {
    const double all = compute + input + wait + reduce + update;
    const std::pair<double, std::string> parts[] = {
        {input, "input: the devices wait for data"},
        {wait, "waiting for " + waiting},
        {reduce, "summing gradients"},
        {update, "the update"},
        {compute * (1 - 1 / slower), "sharing cores, caches or memory: a sample takes " +
                                         format("%.2f", slower) +
                                         " times as long as on one device"}};
    const auto& [part, words] = *std::ranges::max_element(parts);
    if (part < 0.1 * all) return "computing";
    return words + format(" (%.0f %% of the time)", 100 * part / all);
  }
};

/// Which device computes longest.
std::string slowest_of(const StepReport& step) {
  const auto found = std::ranges::max_element(
      step.towers, {}, [](const TowerReport& tower) { return tower.forward + tower.backward; });
  return found->device;
}

/// Efficiency that the cut into shards allows: with 4 shards on 3 devices one has two of them.
double share_limit(int shards, int devices) {
  const int most = (shards + devices - 1) / devices;
  return static_cast<double>(shards) / (most * devices);
}

/// What devices wait for.
std::string awaited(const Recipe& recipe, const StepReport& step) {
  if (recipe.strategy == StrategyName::pipeline && step.towers.size() > 1)
    return "other stages, of which " + slowest_of(step) +
           " computes longest; with more shards they wait less";
  if (recipe.strategy != StrategyName::async) return "the slowest device, " + slowest_of(step);
  if (recipe.async.order == Order::free) return "their turn to update the weights";
  return "earlier updates; with a larger async.delay they wait less";
}

/// The words for devices that have nothing to do, or unequal parts; empty: none has.
std::string idle_devices(const Recipe& recipe, int count) {
  if (recipe.strategy == StrategyName::async) {
    const int busy = recipe.async.order == Order::delay ? recipe.async.delay + 1 : count;
    if (busy >= count) return "";
    return "async.delay: it is " + std::to_string(recipe.async.delay) + ", so " +
           std::to_string(busy) + (busy == 1 ? " device computes" : " devices compute") +
           " at a time";
  }
  const bool pipeline = recipe.strategy == StrategyName::pipeline && count > 1;
  const int sharing = pipeline ? count / recipe.pipeline.stages : count;
  if (share_limit(recipe.shards, sharing) >= 0.9) return "";
  return std::to_string(recipe.shards) + " shards do not go into " + std::to_string(sharing) +
         (pipeline ? " replicas evenly" : " devices evenly");
}

/// `alone`: seconds that computing a sample takes on one device; filled in if it is 0. `files`:
/// what jobs before this one have learned.
ScalingPoint measure(const Recipe& recipe, const InitialWeights& weights,
                     const std::vector<Device>& devices, double seconds, double& alone,
                     JobFiles& files, StatusLine& line) {
  const int count = static_cast<int>(devices.size());
  const auto now = [&] { return now_on(devices); };
  const Seconds start = now();
  const auto job = make_job(recipe, strategy_options(recipe, devices), files);
  files.kept = job->files();
  begin_from(job->strategy(), weights, weight_prefixes(recipe), recipe.init);
  ScalingPoint point{.devices = count};
  auto step = job->step();
  point.first_step = now() - start;
  job->step();  // not counted either: caches, threads and memory settle
  TimeSplit split;
  double rows = 0;
  const auto real_begin = std::chrono::steady_clock::now();
  const Seconds begin = now();
  do {
    step = job->step();
    if (!step) throw ConfigError("the input has ended before the measurement.");
    if (!step->rows)
      throw ConfigError("samples cannot be counted: the batch does not tell its rows.");
    rows += static_cast<double>(*step->rows);
    split.add(*step);
    if (line.due())
      line.show(std::to_string(count) + " devices, batch " + std::to_string(recipe.data.batch) +
                format(": %.0f samples/s", rows / (now() - begin).count()));
    if (signalled()) throw Stopped();
  } while (std::chrono::steady_clock::now() - real_begin < Seconds(seconds));
  point.rows_per_second = rows / (now() - begin).count();
  if (alone == 0) alone = split.compute / rows;
  const double slower = std::max(1.0, split.compute / rows / alone);
  point.limit = idle_devices(recipe, count);
  if (point.limit.empty()) point.limit = split.largest(awaited(recipe, *step), slower);
  return point;
}

/// All that the strategy can be measured on.
std::vector<int> default_counts(const Recipe& recipe, int devices) {
  const int each = recipe.strategy == StrategyName::pipeline ? recipe.pipeline.stages : 1;
  std::vector<int> counts = {1};
  for (int count = each > 1 ? each : 2; count <= devices; count += each) counts.push_back(count);
  return counts;
}

/// Throws IoError for a figure that could not be written after all has been measured.
void require_writable(const std::string& path) {
  const bool there = std::filesystem::exists(path);
  if (!std::ofstream(path, std::ios::app)) throw IoError(path, "write", errno);
  if (!there) std::filesystem::remove(path);
}

void print(const std::string& title, const std::vector<ScalingPoint>& points) {
  std::cout << title << "\n  devices   samples/s  efficiency  first step  limited by\n";
  for (const ScalingPoint& point : points)
    std::cout << "  " << std::setw(7) << point.devices << std::setw(12)
              << format("%.0f", point.rows_per_second) << std::setw(12)
              << format("%.2f", point.efficiency) << std::setw(12)
              << format("%.2f s", point.first_step.count()) << "  " << point.limit << "\n";
  for (std::size_t i = 1; i < points.size(); ++i)
    if (points[i].rows_per_second < points[i - 1].rows_per_second)
      std::cout << "  WARNING: " << points[i].devices << " devices are slower than "
                << points[i - 1].devices << ": " << points[i].limit
                << ". Use fewer, or a larger batch.\n";
  std::cout << std::flush;
}

int scaling(const ScalingFlags& flags, const Environment& environment) {
  watch_signals();
  const Recipe recipe = load_recipe(flags.recipe, flags.all_sets());
  const bool async = recipe.strategy == StrategyName::async;
  const InitialWeights weights = read_initial(recipe.init);
  const UsedDevices used = use_devices(flags.where, environment);
  tell(used);
  require_writable(flags.plot);
  const std::string time = used.devices.front().kind == DeviceKind::sim ? ", virtual time" : "";
  const int all = static_cast<int>(used.devices.size());
  const std::vector<int> counts = flags.counts.empty() ? default_counts(recipe, all) : flags.counts;
  const std::string batch = std::to_string(recipe.data.batch);
  std::string title = flags.recipe + (async ? ", async" : "");
  if (recipe.strategy == StrategyName::pipeline)
    title += ", pipeline of " + std::to_string(recipe.pipeline.stages) + " stages";
  ScalingCurves curves{.title = title + ", " + std::to_string(recipe.shards) +
                                (recipe.shards == 1 ? " shard, " : " shards, ") +
                                (async ? "batch " : "global batch ") + batch + time};
  {
    StatusLine line;
    double alone = 0;
    JobFiles files;
    for (const int count : counts) {
      if (count < 1 || count > all)
        throw ConfigError("--counts " + std::to_string(count) + ": there are " +
                          std::to_string(all) + " devices.");
      const std::vector<Device> devices(used.devices.begin(), used.devices.begin() + count);
      const ScalingPoint as_it_is =
          measure(recipe, weights, devices, flags.seconds, alone, files, line);
      if (async) {  // each device computes whole batches, however many there are
        curves.weak.push_back(as_it_is);
        continue;
      }
      curves.strong.push_back(as_it_is);
      Recipe grown = recipe;
      grow_batch(grown, count);
      grown.shards *= count;
      curves.weak.push_back(
          count == 1 ? as_it_is
                     : measure(grown, weights, devices, flags.seconds, alone, files, line));
    }
  }
  for (auto* points : {&curves.strong, &curves.weak})
    for (ScalingPoint& point : *points)
      point.efficiency = point.rows_per_second * points->front().devices /
                         (points->front().rows_per_second * point.devices);
  if (!async) print("strong: the global batch stays " + batch + time, curves.strong);
  print("weak: the batch of a device stays " + batch + time, curves.weak);
  write_file(flags.plot, scaling_svg(curves));
  std::cout << "figure: " << flags.plot << "\n";
  return kDone;
}

}  // namespace

void add_scaling(CLI::App& app, const Environment& environment, Run& run) {
  const auto flags = std::make_shared<ScalingFlags>();
  CLI::App* command = app.add_subcommand(
      "scaling", "Measures a recipe on 1 to N devices, says what limits it, and draws it.");
  add_recipe_flags(*command, *flags);
  add_device_flags(*command, flags->where);
  command
      ->add_option("--counts", flags->counts,
                   "numbers of devices to measure: 1,2,4; by default 1 to all of --devices, of "
                   "--strategy pipeline 1 and the multiples of pipeline.stages")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--seconds", flags->seconds, "of each measurement")->check(above_zero());
  command->add_option("--plot", flags->plot, "the figure to write, SVG");
  command->footer(
      "strong: the global batch is the recipe's on every number of devices.\n"
      "weak: it grows with the devices, so that each has the same work; the only one of --strategy "
      "async.\n"
      "efficiency: samples/s, divided by the devices and by samples/s of the first count.");
  command->callback([flags, environment, &run] {
    run = [=] {
      try {
        return scaling(*flags, environment);
      } catch (const Stopped&) {
        return kStopped;
      }
    };
  });
}

}  // namespace lockstep::apps
