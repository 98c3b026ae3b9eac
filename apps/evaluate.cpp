// `lockstep evaluate`: what a checkpoint is worth.

#include <lockstep/error.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "console.h"
#include "device_flags.h"
#include "exit_codes.h"
#include "family_program.h"
#include "run_folder.h"
#include "run_pictures.h"
#include "signals.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

struct EvaluateFlags {
  std::string path;
  std::vector<std::string> sets;
  DeviceFlags where;
  std::string weights = "auto";
  bool best = false;
  std::string log = "text";
  std::string pictures;
};

void print(const EvaluateFlags& flags, const std::string& set, std::int64_t step, bool averaged,
           const Summary& result) {
  if (flags.log == "json")
    std::cout << nlohmann::ordered_json{{"event", "evaluation"},
                                        {"step", step},
                                        {"set", set},
                                        {"averaged", averaged},
                                        {"metrics", result.metrics},
                                        {"texts", result.texts}}
                     .dump()
              << std::endl;
  else
    std::cout << "step " << step << "  " << set << (averaged ? " (averaged weights): " : ": ")
              << line_of(result.metrics) << std::endl;
  for (const auto& [name, text] : result.texts)
    if (flags.log == "text") std::cout << name << ":\n" << text << std::endl;
}

/// False when a signal came.
bool evaluate_sets(const EvaluateFlags& flags, Job& job, bool averaged) {
  for (std::size_t i = 0; i < job.sets().size(); ++i) {
    const std::string set = job.sets()[i];
    std::optional<Summary> result;
    {
      StatusLine line;
      result = job.evaluate(i, [&](std::int64_t batches, std::int64_t total) {
        if (flags.log == "text" && total > 0 && line.due())
          line.show("evaluates " + set + " " +
                    bar(static_cast<double>(batches) / static_cast<double>(total), 20));
        return !signalled();
      });
    }
    if (!result) return false;
    print(flags, set, job.strategy().steps(), averaged, *result);
    for (const auto& [name, image] : result->images) {
      if (flags.pictures.empty()) continue;
      std::cerr << "picture: " << write_picture(flags.pictures, set, name, image) << "\n";
      if (!image.note.empty()) std::cerr << "note: in that picture " << image.note << "\n";
    }
  }
  return true;
}

int evaluate(const EvaluateFlags& flags, const Environment& environment) {
  watch_signals();
  const FoundCheckpoint found =
      find_checkpoint(flags.path, flags.best ? Which::best : Which::newest);
  const Manifest& manifest = found.checkpoint.manifest;
  if (manifest.recipe.empty())
    throw ConfigError("'" + found.path + "' has no recipe: `lockstep train` did not write it.");
  Recipe recipe = kept_recipe(manifest.recipe, found.path + "'s recipe", flags.sets);
  recipe.shards = manifest.shards;
  const UsedDevices used = use_devices(flags.where, environment);
  tell(used);
  // Whole models are evaluated, and any number of CPU devices can: no stages are needed.
  if (recipe.strategy == StrategyName::pipeline && used.devices.front().kind == DeviceKind::cpu)
    recipe.strategy = StrategyName::mirrored;
  JobFiles files{.kept = found.checkpoint.files, .evaluation = true};
  if (std::filesystem::is_directory(checkpoints_of(flags.path))) files.folder = flags.path;
  const auto job = make_job(recipe, strategy_options(recipe, used.devices), files);
  job->strategy().load(found.checkpoint.state);
  const bool averaged =
      flags.weights == "averaged" || (flags.weights == "auto" && recipe.evaluate.averaged);
  if (averaged && found.checkpoint.state.averages.empty())
    throw ConfigError("'" + found.path +
                      "' has no moving averages: --weights live has what it has.");
  if (flags.log == "text") std::cerr << found.path << "\n";
  bool complete = true;
  const auto all = [&] { complete = evaluate_sets(flags, *job, averaged); };
  if (averaged)
    job->strategy().with_averaged_weights(all);
  else
    all();
  return complete ? kDone : kStopped;
}

}  // namespace

void add_evaluate(CLI::App& app, const Environment& environment, Run& run) {
  const auto flags = std::make_shared<EvaluateFlags>();
  CLI::App* command = app.add_subcommand("evaluate", "Evaluates a checkpoint with its recipe.");
  command->add_option("path", flags->path, "a run, its folder of checkpoints, or one checkpoint")
      ->required();
  command->add_flag("--best", flags->best,
                    "of a run, the best checkpoint by the recipe's metric; else the newest");
  command
      ->add_option("--weights", flags->weights,
                   "live, averaged, or auto: as the recipe's evaluate.averaged says")
      ->check(CLI::IsMember({"auto", "live", "averaged"}));
  command->add_option("--set", flags->sets, "sets a field of its recipe: --set data.path=DIR")
      ->allow_extra_args(false);
  add_device_flags(*command, flags->where);
  command->add_option("--log", flags->log, "text, or json: one line of JSON a set")
      ->check(CLI::IsMember({"text", "json"}));
  command->add_option("--pictures", flags->pictures,
                      "writes the evaluation's pictures, such as the confusion matrix, as PNG into "
                      "this folder");
  command->footer(
      "Exit codes: 0 done; 1 failed; 2 the user can put it right; 3 stopped by a signal.");
  command->callback(
      [flags, environment, &run] { run = [=] { return evaluate(*flags, environment); }; });
}

}  // namespace lockstep::apps
