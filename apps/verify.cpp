// `lockstep verify`: does the number of devices change the result of this recipe?

#include <lockstep/error.h>
#include <lockstep/verify.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>

#include "commands.h"
#include "device_flags.h"
#include "exit_codes.h"
#include "family_program.h"
#include "flag_checks.h"
#include "init_weights.h"
#include "machine_flags.h"
#include "recipe_flags.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

struct VerifyFlags : RecipeFlags {
  DeviceFlags where;
  MachineFlags machines;
  std::vector<int> counts;
  int steps = 0;  ///< 0: as many as show something
};

/// Throws ConfigError for a recipe whose result is not to be the same.
void require_comparable(const Recipe& recipe) {
  if (recipe.strategy == StrategyName::async && recipe.async.order == Order::free)
    throw ConfigError(
        "async.order is free: then the result depends on the speed of the devices, and there is "
        "nothing to compare. Set async.order=delay, whose result does not.");
}

/// Three, after those whose gradients are not yet as late as later ones.
int default_steps(const Recipe& recipe) {
  return 3 + (recipe.strategy == StrategyName::async ? recipe.async.delay : 0);
}

std::vector<int> counts_of(const VerifyFlags& flags, int devices) {
  std::vector<int> counts = flags.counts;
  if (counts.empty()) counts = {1, devices};
  for (const int count : counts)
    if (count < 1 || count > devices)
      throw ConfigError("--counts " + std::to_string(count) + ": --devices " + flags.where.devices +
                        " has " + std::to_string(devices) + ".");
  if (std::ranges::max(counts) == std::ranges::min(counts))
    throw ConfigError(
        "there are no two numbers of devices to compare: give --devices cpu:0-3, say; more than "
        "there are cores is fine.");
  return counts;
}

/// One device of this machine, and those of all.
std::vector<int> counts_of(const VerifyFlags& flags, Machines& machines, std::size_t devices) {
  if (!flags.counts.empty())
    throw ConfigError(
        "--counts is for one machine: several are compared as they are with one device.");
  int all = 0;
  for (const Bytes& theirs : machines.all_gather(std::as_bytes(std::span(&devices, 1)))) {
    std::size_t count = 0;
    std::memcpy(&count, theirs.data(), std::min(theirs.size(), sizeof count));
    all += static_cast<int>(count);
  }
  return {1, all};
}

int verify(const VerifyFlags& flags, const Environment& environment) {
  const std::shared_ptr<Machines> machines = join_machines(flags.machines);
  const std::string instructions = level_machines(flags.machines, machines);
  const bool first = is_first(machines);
  const Recipe recipe = load_recipe(flags.recipe, flags.all_sets());
  require_comparable(recipe);
  const int steps = flags.steps > 0 ? flags.steps : default_steps(recipe);
  const UsedDevices used = use_devices(flags.where, environment);
  compare_recipes(machines, recipe, instructions);
  if (first) tell(used);
  const auto counts = machines ? counts_of(flags, *machines, used.devices.size())
                               : counts_of(flags, static_cast<int>(used.devices.size()));
  const InitialWeights weights = read_initial(recipe.init);
  bool told = false;
  JobFiles files;  // tokens are learned once
  const auto job_on = [&](int count) {
    const bool all = machines && count > 1;
    MirroredOptions options = strategy_options(
        recipe, {used.devices.begin(), all ? used.devices.end() : used.devices.begin() + count});
    if (all) options.where.machines = machines;
    options.where.instructions = instructions;
    auto job = make_job(recipe, std::move(options), files);
    files.kept = job->files();
    for (const std::string& note :
         begin_from(job->strategy(), weights, weight_prefixes(recipe), recipe.init))
      if (!told && first) std::cerr << "note: " << note << "\n";
    told = true;
    return job;
  };
  for (std::size_t i = 1; i < counts.size(); ++i) {
    StatusLine line;
    const Verification found = lockstep::verify(
        job_on,
        {.counts = {counts.front(), counts[i]}, .steps = steps, .progress = [&](int, int step) {
           if (first) line.show("step " + std::to_string(step));
         }});
    const std::string of = machines ? " of " + std::to_string(machines->size()) + " machines" : "";
    const std::string what =
        std::to_string(counts.front()) + " and " + std::to_string(counts[i]) + " devices" + of +
        ", " + std::to_string(steps) + (steps == 1 ? " step in " : " steps in ") +
        std::to_string(recipe.shards) + (recipe.shards == 1 ? " shard: " : " shards: ");
    if (first)
      line.print(what + (found.equal ? "equal, bit for bit" : "DIFFER, " + found.difference));
    if (!found.equal) return kFailed;
  }
  return kDone;
}

}  // namespace

void add_verify(CLI::App& app, const Environment& environment, Run& run) {
  const auto flags = std::make_shared<VerifyFlags>();
  CLI::App* command = app.add_subcommand(
      "verify", "Trains a recipe on several numbers of devices and compares every bit.");
  add_recipe_flags(*command, *flags);
  add_device_flags(*command, flags->where);
  add_machine_flags(*command, flags->machines);
  command
      ->add_option(
          "--counts", flags->counts,
          "numbers of devices, the first so many of --devices: 1,2,4. Each is compared with "
          "the first; by default 1 and all")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--steps", flags->steps,
                   "steps to compare after; by default 3, and async.delay more")
      ->check(whole_number(1));
  command->footer("Exit codes: 0 equal; 1 they differ: the first tensor and element is named.");
  command->callback(
      [flags, environment, &run] { run = [=] { return verify(*flags, environment); }; });
}

}  // namespace lockstep::apps
