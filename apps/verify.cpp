// `lockstep verify`: does the number of devices change the result of this recipe?

#include <lockstep/error.h>
#include <lockstep/verify.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "commands.h"
#include "device_flags.h"
#include "exit_codes.h"
#include "family_program.h"
#include "flag_checks.h"
#include "init_weights.h"
#include "recipe_flags.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

struct VerifyFlags : RecipeFlags {
  DeviceFlags where;
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

int verify(const VerifyFlags& flags, const Environment& environment) {
  const Recipe recipe = load_recipe(flags.recipe, flags.all_sets());
  require_comparable(recipe);
  const int steps = flags.steps > 0 ? flags.steps : default_steps(recipe);
  const UsedDevices used = use_devices(flags.where, environment);
  tell(used);
  const auto counts = counts_of(flags, static_cast<int>(used.devices.size()));
  const InitialWeights weights = read_initial(recipe.init);
  bool told = false;
  JobFiles files;  // tokens are learned once
  const auto job_on = [&](int count) {
    auto job = make_job(
        recipe, strategy_options(recipe, {used.devices.begin(), used.devices.begin() + count}),
        files);
    files.kept = job->files();
    for (const std::string& note :
         begin_from(job->strategy(), weights, weight_prefixes(recipe), recipe.init))
      if (!told) std::cerr << "note: " << note << "\n";
    told = true;
    return job;
  };
  for (std::size_t i = 1; i < counts.size(); ++i) {
    StatusLine line;
    const Verification found = lockstep::verify(
        job_on, {.counts = {counts.front(), counts[i]},
                 .steps = steps,
                 .progress = [&](int, int step) { line.show("step " + std::to_string(step)); }});
    const std::string what = std::to_string(counts.front()) + " and " + std::to_string(counts[i]) +
                             " devices, " + std::to_string(steps) + " steps in " +
                             std::to_string(recipe.shards) +
                             (recipe.shards == 1 ? " shard: " : " shards: ");
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
