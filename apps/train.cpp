// `lockstep train`: trains a recipe, and goes on where it stopped.

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/tensorboard.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "commands.h"
#include "console.h"
#include "device_flags.h"
#include "exit_codes.h"
#include "family_program.h"
#include "init_weights.h"
#include "machine_flags.h"
#include "placement_report.h"
#include "recipe_flags.h"
#include "run_folder.h"
#include "run_pictures.h"
#include "signals.h"
#include "trace_file.h"

namespace lockstep::apps {
namespace {

struct TrainFlags : RecipeFlags {
  DeviceFlags where;
  MachineFlags machines;
  std::optional<int> shards;
  std::string run_dir;
  std::string resume = "auto";
  std::string log = "text";
  std::string trace;
  bool placement_report = false;
  bool print_recipe = false;
};

/// Keeps each tower's last report, for --placement-report.
struct LastTowers : Observer {
  void started(const TrainingStart& start) override { devices = start.devices; }
  void stepped(const StepReport& step, const TrainingProgress&) override {
    if (!step.staleness) last.clear();  // all towers are in every step
    for (const TowerReport& tower : step.towers)
      last[std::ranges::find(devices, tower.device) - devices.begin()] = tower;
  }
  std::vector<std::string> devices;
  std::map<std::ptrdiff_t, TowerReport> last;  ///< by the number of the device
};

std::string default_run_dir(const std::string& recipe) {
  return "runs/" + std::filesystem::path(recipe).stem().string();
}

std::optional<FoundCheckpoint> checkpoint_to_resume(const TrainFlags& flags) {
  const std::string folder = checkpoints_of(flags.run_dir);
  if (flags.resume == "auto") {
    std::vector<std::string> problems;
    auto found = load_newest(folder, problems);
    for (const std::string& problem : problems)
      std::cerr << "lockstep: skipped a checkpoint: " << problem << "\n";
    if (!found && !problems.empty())
      throw ConfigError("no checkpoint in '" + folder +
                        "' is whole. Give another --run-dir to begin anew.");
    return found;
  }
  if (flags.resume != "never") return find_checkpoint(flags.resume);
  if (!list_checkpoints(folder).empty())
    throw ConfigError("'" + flags.run_dir +
                      "' has checkpoints already, and --resume never would write over them: give "
                      "another --run-dir, or remove it.");
  return std::nullopt;
}

/// What will not be as it was before it stopped.
void tell_changes(const Manifest& manifest, const Recipe& recipe) {
  if (manifest.recipe.empty()) return;
  for (const std::string& change :
       differences(kept_recipe(manifest.recipe, "the checkpoint's recipe"), recipe))
    std::cerr << "note: changed since the checkpoint: " << change << "\n";
}

/// The fields of the method that --set changes, so that going on from a checkpoint is allowed to.
/// Throws ConfigError for those that changed in the recipe itself.
std::vector<std::string> asked_changes(const FoundCheckpoint& found, const TrainFlags& flags,
                                       const Recipe& recipe, const Method& method) {
  const Manifest& manifest = found.checkpoint.manifest;
  if (manifest.shards != method.shards)
    throw ConfigError("the checkpoint is of a training in " + std::to_string(manifest.shards) +
                      " shards, this one is in " + std::to_string(method.shards) +
                      ": give it the same number, or another --run-dir to begin anew.");
  const Recipe asked = manifest.recipe.empty()
                           ? Recipe{}
                           : kept_recipe(manifest.recipe, "the checkpoint's recipe", flags.sets);
  auto as_asked = fields_of(strategy_options(asked, {}).method);
  if (asked.optimizer.decay_biases_and_norms == recipe.optimizer.decay_biases_and_norms)
    as_asked["rules"] = fields_of(method).at("rules");  // the family makes them of that field
  std::vector<std::string> names;
  std::string refused;
  for (const FieldChange& change : changes(manifest, method)) {
    names.push_back(change.name);
    const auto value = as_asked.find(change.name);
    if ((value == as_asked.end() ? "none" : value->second) != change.now)
      refused += (refused.empty() ? "" : ", ") + describe(change);
  }
  if (!refused.empty())
    throw ConfigError("the recipe has changed since '" + found.path + "' was written (" + refused +
                      "): put it back, set it with --set to go on with the new values, or give "
                      "another --run-dir to begin anew.");
  return names;
}

void tell_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::cerr << "note: " << note << "\n";
}

/// A new training begins from what its section [init] says, which is then known by its checksum.
void begin_anew(Job& job, Recipe& recipe, const InitialWeights& weights, bool first) {
  const auto notes = begin_from(job.strategy(), weights, weight_prefixes(recipe), recipe.init);
  if (first) tell_notes(notes);
  recipe.init.checksum = weights.checksum;
}

/// Writes down what is trained, but not over the file that it was read from.
void keep_recipe(const TrainFlags& flags, const Recipe& recipe) {
  const std::string path = flags.run_dir + "/recipe.toml";
  std::error_code not_there;
  if (!std::filesystem::equivalent(flags.recipe, path, not_there))
    write_file(path, print_recipe(recipe));
}

void tell_problems(const TensorBoard& board, const RunPictures& pictures, const TrainingEnd& end) {
  if (const std::string problem = board.error(); !problem.empty())
    std::cerr << "lockstep: events for TensorBoard are not complete: " << problem << "\n";
  if (const std::string problem = pictures.error(); !problem.empty())
    std::cerr << "lockstep: pictures are not complete: " << problem << "\n";
  if (!end.error.empty()) std::cerr << "lockstep: the last save failed: " << end.error << "\n";
}

int code_of(const TrainingEnd& end) {
  if (!end.error.empty()) return kFailed;
  return end.ending == Ending::stopped ? kStopped : kDone;
}

int train(TrainFlags flags, const Environment& environment) {
  watch_signals();
  if (flags.run_dir.empty()) flags.run_dir = default_run_dir(flags.recipe);
  if (flags.shards) flags.sets.push_back("shards=" + std::to_string(*flags.shards));
  flags.sets = flags.all_sets();
  const std::shared_ptr<Machines> machines =
      flags.print_recipe ? nullptr : join_machines(flags.machines);
  const bool first = is_first(machines);
  Reading reading;
  Recipe recipe = load_recipe(flags.recipe, flags.sets, &reading);
  std::shared_ptr<void> lock;
  std::optional<FoundCheckpoint> found;
  if (!flags.print_recipe && first) {
    lock = lock_checkpoints(checkpoints_of(flags.run_dir));
    found = checkpoint_to_resume(flags);
  }
  if (machines) found = from_first(*machines, found);
  const UsedDevices used = use_devices(flags.where, environment, !flags.trace.empty());
  if (found && !reading.stated.contains("shards"))
    recipe.shards = found->checkpoint.manifest.shards;
  if (found) keep_init(*found, reading.stated, recipe);
  if (flags.print_recipe) {
    std::cout << print_recipe(recipe);
    return kDone;
  }
  compare_recipes(machines, recipe);
  if (first) tell_notes(reading.notes);
  if (first) tell_notes(used.notes);
  if (first && recipe.strategy == StrategyName::pipeline && used.devices.size() == 1)
    std::cerr << "note: one device has the whole model: a pipeline there is mirrored, with the "
                 "same result. Give --devices more to spread the model over them.\n";
  if (found && first) tell_changes(found->checkpoint.manifest, recipe);
  InitialWeights weights = found ? InitialWeights{} : read_initial(recipe.init);

  MirroredOptions strategy = strategy_options(recipe, used.devices);
  strategy.where.machines = machines;
  if (!flags.trace.empty()) strategy.where.trace = std::make_shared<Trace>();
  JobFiles files{.folder = first ? flags.run_dir : ""};
  if (found) files.kept = found->checkpoint.files;
  const auto job = make_job(recipe, strategy, files);
  if (!found) begin_anew(*job, recipe, weights, first);
  weights = {};
  const auto console = make_console(flags.log == "json" ? LogStyle::json : LogStyle::text);
  LastTowers towers;
  TensorBoard board(
      {.folder = flags.run_dir,
       .histograms_every = recipe.log.histograms_every,
       .text = "```toml\n" + print_recipe(recipe) + "```",
       .hyper_parameters = values_of(recipe),
       .metrics = {"loss/total", job->sets().front() + "/" + recipe.evaluate.metric}});
  std::vector<Observer*> observers = {console.get(), &towers};
  if (recipe.log.tensorboard) observers.push_back(&board);
  RunPictures pictures(flags.run_dir + "/pictures");
  if (recipe.log.pictures) observers.push_back(&pictures);
  if (!first) observers.clear();

  TrainerOptions options = trainer_options(recipe, *job);
  if (first) options.folder = checkpoints_of(flags.run_dir);
  options.lock = lock;
  options.on_machine_failure = flags.machines.on_machine_failure();
  options.stop = signalled;
  if (found) options.changes = asked_changes(*found, flags, recipe, job->strategy().method());
  Trainer trainer(*job, std::move(options), observers);
  if (found) trainer.resume(*found);
  found.reset();
  if (first) keep_recipe(flags, recipe);
  const TrainingEnd end = trainer.run();
  if (!first) return code_of(end);

  if (flags.placement_report)
    (flags.log == "json" ? std::cerr : std::cout) << placement_report(towers.last, environment);
  tell_problems(board, pictures, end);
  if (strategy.where.trace) write_trace(*strategy.where.trace, flags.trace);
  if (end.ending == Ending::stopped && flags.log == "text")
    std::cerr << (flags.resume == "auto" ? "run the same command again to go on\n"
                                         : "the same command with --resume auto goes on\n");
  return code_of(end);
}

std::string recipes_text() {
  std::string text = "Recipes built in (or give the path of a TOML file):\n";
  for (const BuiltIn& recipe : built_in_recipes()) text += listed_recipe(recipe);
  return text;
}

}  // namespace

void add_train(CLI::App& app, const Environment& environment, Run& run) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app.add_subcommand("train", "Trains a recipe; goes on where it stopped.");
  add_recipe_flags(*command, *flags);
  add_device_flags(*command, flags->where);
  add_machine_flags(*command, flags->machines);
  command
      ->add_option("--shards", flags->shards,
                   "parts of the global batch: what the result depends on, where the number of "
                   "devices does not matter. By default as the recipe says, or the checkpoint has, "
                   "else " +
                       std::to_string(kDefaultShards) + ", and 1 for --strategy async")
      ->check(CLI::PositiveNumber);
  command->add_option("--run-dir", flags->run_dir,
                      "folder of the run: checkpoints, TensorBoard events, the recipe. By default "
                      "runs/<recipe>");
  command->add_option("--resume", flags->resume,
                      "auto: from the newest whole checkpoint of the run, if there is one. never: "
                      "begin anew. Or the path of a checkpoint or run");
  command->add_option("--log", flags->log, "text, or json: one line of JSON a report")
      ->check(CLI::IsMember({"text", "json"}));
  command->add_option("--trace", flags->trace,
                      "write a timeline to this file, for chrome://tracing or Perfetto");
  command->add_flag("--placement-report", flags->placement_report,
                    "say at the end where everything ran");
  command->add_flag("--print-recipe", flags->print_recipe,
                    "print the recipe with every field, and do not train");
  command->footer([] {
    return recipes_text() + "\nFields, for --set and for TOML files:\n" + describe_fields() +
           "\nExit codes: 0 done; 1 failed; 2 the user can put it right; 3 stopped by SIGINT or "
           "SIGTERM, saved:\nrun the same command again to go on; 4 a machine was lost.";
  });
  command->callback(
      [flags, environment, &run] { run = [=] { return train(*flags, environment); }; });
}

}  // namespace lockstep::apps
