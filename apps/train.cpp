#include "train.h"

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "console.h"
#include "divergence.h"
#include "exit_codes.h"
#include "family_program.h"
#include "init_weights.h"
#include "placement_report.h"
#include "resuming.h"
#include "run_folder.h"
#include "signals.h"
#include "trace_file.h"
#include "training_observers.h"

namespace lockstep::apps {
namespace {

std::string default_run_dir(const std::string& recipe) {
  return "runs/" + std::filesystem::path(recipe).stem().string();
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

/// Writes down what is trained, but not over a file of the user's that it was read from.
void keep_recipe(const TrainFlags& flags, const Recipe& recipe) {
  const std::string path = flags.run_dir + "/recipe.toml";
  std::error_code not_there;
  if (flags.own_recipe || !std::filesystem::equivalent(flags.recipe, path, not_there))
    replace_file(path, print_recipe(recipe));
}

/// What --dry-run says in place of training.
void tell_dry_run(Job& job, const Recipe& recipe, const std::string& run, std::int64_t from) {
  std::int64_t values = 0;
  for (const torch::Tensor& parameter : job.strategy().module().parameters())
    values += parameter.numel();
  const std::vector<std::string> names = job.strategy().device_names();
  std::string devices;
  for (const std::string& device : names) devices += " " + device;
  std::cout << "would train " << recipe.family << ", " << values << " parameters, "
            << job.strategy().name() << " on" << devices << "\n"
            << shards_text(recipe.shards, job.strategy().name(), names.size()) << "\n";
  if (job.steps_per_epoch() > 0) std::cout << job.steps_per_epoch() << " steps an epoch\n";
  std::cout << "in " << run << (from > 0 ? ", from step " + std::to_string(from) : ", from step 0")
            << "\n";
}

/// A run that was finished before it was started again.
void tell_nothing_to_do(const std::string& run, const Recipe& recipe, Ending ending) {
  const TrainRecipe& train = recipe.train;
  std::cerr << "there was nothing to do: the run "
            << (ending == Ending::early_stop ? "was stopped early"
                                             : "has reached the limit of its recipe")
            << ". To train on: lockstep resume " << run << " --set ";
  if (ending == Ending::early_stop)
    std::cerr << "evaluate.stop_after=0";
  else if (train.steps > 0)
    std::cerr << "train.steps=" << 2 * train.steps;
  else if (train.epochs > 0)
    std::cerr << "train.epochs=" << 2 * train.epochs;
  else
    std::cerr << "train.seconds=" << 2 * train.seconds;
  std::cerr << "; to use it: lockstep evaluate " << run << " --best\n";
}

int code_of(const TrainingEnd& end) {
  if (!end.error.empty()) return kFailed;
  return end.ending == Ending::stopped ? kStopped : kDone;
}

/// What a training needs before its job is made.
struct Prepared {
  std::shared_ptr<Machines> machines = nullptr;
  Recipe recipe = {};
  Reading reading = {};
  std::shared_ptr<void> lock = nullptr;
  std::optional<FoundCheckpoint> found = std::nullopt;
  UsedDevices used = {};

  bool first() const { return is_first(machines); }
};

Prepared prepare(const TrainFlags& flags, const std::shared_ptr<Machines>& machines,
                 const Environment& environment) {
  Prepared ready{.machines = machines};
  ready.recipe = recipe_to_train(flags, ready.reading);
  TrainFlags in_run = flags;
  if (in_run.run_dir.empty()) in_run.run_dir = default_run_dir(flags.recipe);
  if (!flags.print_recipe && ready.first()) {
    if (!flags.dry_run) ready.lock = lock_checkpoints(checkpoints_of(in_run.run_dir));
    ready.found = checkpoint_to_resume(in_run);
  }
  if (ready.machines) ready.found = from_first(*ready.machines, ready.found);
  ready.used = use_devices(flags.where, environment, !flags.trace.empty());
  if (!ready.found) return ready;
  if (!ready.reading.stated.contains("shards"))
    ready.recipe.shards = ready.found->checkpoint.manifest.shards;
  keep_init(*ready.found, ready.reading.stated, ready.recipe);
  return ready;
}

void tell(const Prepared& ready) {
  tell_notes(ready.reading.notes);
  tell_notes(ready.used.notes);
  if (ready.recipe.strategy == StrategyName::pipeline && ready.used.devices.size() == 1)
    std::cerr << "note: one device has the whole model: a pipeline there is mirrored, with the "
                 "same result. Give --devices more to spread the model over them.\n";
  if (ready.recipe.precision == Precision::float16 &&
      ready.used.devices.front().kind == DeviceKind::cpu)
    std::cerr << "note: CPUs have no fast kernels for precision = \"float16\": the recipes "
                 "fashion, cifar10 "
                 "and chat train 9 to 16 times slower than in float32. Take bfloat16 or float32.\n";
  if (ready.found) tell_changes(*ready.found, ready.recipe);
}

TrainingEnd run_trainer(Trainer& trainer, const TrainFlags& flags, const Recipe& recipe,
                        bool first) {
  try {
    return trainer.run();
  } catch (...) {
    if (first && is_non_finite(std::current_exception()))
      std::cerr << advice_after_divergence(flags.run_dir, recipe, std::current_exception());
    throw;
  }
}

/// Trains until a limit, a signal, or until a machine that has come back is to be taken in.
int train_with(TrainFlags flags, const std::shared_ptr<Machines>& machines,
               const Environment& environment) {
  const std::string instructions = level_machines(flags.machines, machines);
  Prepared ready = prepare(flags, machines, environment);
  if (flags.run_dir.empty()) flags.run_dir = default_run_dir(flags.recipe);
  Recipe& recipe = ready.recipe;
  std::optional<FoundCheckpoint>& found = ready.found;
  if (flags.print_recipe) {
    std::cout << print_recipe(recipe);
    return kDone;
  }
  compare_recipes(ready.machines, recipe, instructions);
  const bool first = ready.first();
  if (first) tell(ready);
  const std::int64_t from = found ? found->checkpoint.manifest.progress.step : 0;

  MirroredOptions strategy = strategy_options(recipe, ready.used.devices);
  strategy.where.machines = ready.machines;
  if (flags.on_device_failure == "replay")
    strategy.where.on_device_failure = OnDeviceFailure::replay;
  strategy.where.instructions = instructions;
  if (!flags.trace.empty()) strategy.where.trace = std::make_shared<Trace>();
  JobFiles files{.folder = flags.dry_run || !first ? "" : flags.run_dir};
  if (found) files.kept = found->checkpoint.files;
  InitialWeights weights = found ? InitialWeights{} : read_initial(recipe.init);
  const auto job = make_job(recipe, strategy, files);
  if (!found) begin_anew(*job, recipe, weights, first);
  weights = {};
  TrainingObservers observers(flags, recipe, *job);
  TrainerOptions options = trainer_options(recipe, *job);
  if (first && !flags.dry_run) options.folder = checkpoints_of(flags.run_dir);
  options.lock = ready.lock;
  options.on_machine_failure = flags.machines.on_machine_failure();
  options.stop = [&] { return signalled() || somebody_waits(flags.machines, machines); };
  if (found) options.changes = asked_changes(*found, flags, recipe, job->strategy().method());
  Trainer trainer(*job, std::move(options), first ? observers.all() : std::vector<Observer*>{});
  if (found) resume_trainer(trainer, *found, flags, recipe);
  if (flags.dry_run) {
    if (first) tell_dry_run(*job, recipe, flags.run_dir, from);
    return kDone;
  }
  const bool resumed = found.has_value();
  found.reset();
  if (first) keep_recipe(flags, recipe);
  const TrainingEnd end = run_trainer(trainer, flags, recipe, first);
  if (!first) return code_of(end);

  if (flags.placement_report)
    (flags.log == "json" ? std::cerr : std::cout)
        << placement_report(observers.last_towers(), environment);
  observers.tell_problems();
  if (!end.error.empty()) std::cerr << "lockstep: the last save failed: " << end.error << "\n";
  if (strategy.where.trace) write_trace(*strategy.where.trace, flags.trace);
  if (end.ending == Ending::stopped && flags.log == "text" && signalled())
    std::cerr << (flags.resume == "auto" ? "run the same command again to go on\n"
                                         : "`lockstep resume " + flags.run_dir + "` goes on\n");
  if (resumed && end.progress.step == from && end.ending != Ending::stopped)
    tell_nothing_to_do(flags.run_dir, recipe, end.ending);
  return code_of(end);
}

}  // namespace

int train(TrainFlags flags, const Environment& environment) {
  watch_signals();
  if (flags.shards) flags.sets.push_back("shards=" + std::to_string(*flags.shards));
  flags.sets = flags.all_sets();
  // Joined first, so that whoever finds a problem takes the others along.
  const auto machines = flags.print_recipe ? nullptr : join_machines(flags.machines);
  for (;;) {
    const int code = train_with(flags, machines, environment);
    if (code != kStopped || !take_in(flags.machines, machines, signalled())) return code;
    flags.resume = "auto";  // all begin from the checkpoint that was saved for it
  }
}

}  // namespace lockstep::apps
