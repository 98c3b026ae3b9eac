#include "resuming.h"

#include <lockstep/error.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <set>

#include "family_program.h"
#include "recipe/fields.h"
#include "run_folder.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

std::string recipe_of(const std::string& run) { return run + "/recipe.toml"; }

/// "`lockstep resume runs/a` goes on with it, and ..."
std::string what_to_do(const std::string& run) {
  return "`lockstep resume " + run + "` goes on with it, and `lockstep train " + recipe_of(run) +
         " --run-dir FOLDER` begins the same training anew in another folder.";
}

/// The recipe that a run's newest checkpoint has, where the run has no file of it.
std::string kept_text(const std::string& run) {
  const auto listed = list_checkpoints(checkpoints_of(run));
  if (listed.empty() || listed.back().manifest.recipe.empty())
    throw ConfigError("'" + run + "' has neither a recipe.toml nor a checkpoint with a recipe: " +
                      "`lockstep train RECIPE --run-dir " + run + "` can go on with it.");
  return listed.back().manifest.recipe;
}

/// The names in "name: before -> now".
std::string name_in(const std::string& change) { return change.substr(0, change.find(':')); }

/// Of what has changed, the fields that a model may be made of: "model.name: a -> b, ...".
std::string model_changes(const FoundCheckpoint& found, const Recipe& recipe) {
  const std::string& kept = found.checkpoint.manifest.recipe;
  if (kept.empty()) return "";
  Recipe copy = recipe;
  std::set<std::string> others;
  for (const Section& section : training_sections(copy)) others.insert(section.name);
  std::string text;
  for (const std::string& change :
       differences(kept_recipe(kept, "the checkpoint's recipe"), recipe)) {
    const auto dot = name_in(change).find('.');
    if (dot != std::string::npos && !others.contains(change.substr(0, dot)))
      text += (text.empty() ? "" : ", ") + change;
  }
  return text;
}

}  // namespace

Recipe recipe_to_train(const TrainFlags& flags, Reading& reading) {
  if (flags.own_recipe && !fs::exists(flags.recipe))
    return parse_recipe(kept_text(flags.run_dir), "the newest checkpoint's recipe", flags.sets,
                        &reading);
  if (fs::is_directory(flags.recipe))
    throw ConfigError("'" + flags.recipe + "' is a " +
                      (is_run(flags.recipe) ? "run: " + what_to_do(flags.recipe)
                                            : "folder, and a recipe is a file or a name that "
                                              "`lockstep recipes` lists."));
  const fs::path parent = fs::path(flags.recipe).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const bool of_a_run = !flags.own_recipe && fs::path(flags.recipe).filename() == "recipe.toml" &&
                        fs::is_directory(checkpoints_of(folder));
  if (of_a_run && flags.run_dir.empty())
    throw ConfigError("'" + flags.recipe + "' is the recipe of a run: " + what_to_do(folder));
  return load_recipe(flags.recipe, flags.sets, &reading);
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

void tell_changes(const FoundCheckpoint& found, const Recipe& recipe) {
  const std::string& text = found.checkpoint.manifest.recipe;
  if (text.empty()) return;
  const auto fixed = fixed_fields(recipe);
  for (const std::string& change :
       differences(kept_recipe(text, "the checkpoint's recipe"), recipe)) {
    if (std::ranges::count(fixed, name_in(change)) > 0)
      throw ConfigError(change +
                        " cannot take effect: what it is about was made when the run "
                        "began. Put it back (`lockstep resume RUN` keeps the run's own "
                        "recipe), or give another --run-dir to begin anew.");
    std::cerr << "note: changed since the checkpoint: " << change << "\n";
  }
}

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
  if (!refused.empty() && !flags.own_recipe)
    throw ConfigError("the recipe has changed since '" + found.path + "' was written (" + refused +
                      "): put it back, set it with --set to go on with the new values, or give "
                      "another --run-dir to begin anew.");
  return names;
}

void resume_trainer(Trainer& trainer, FoundCheckpoint& found, const TrainFlags& flags,
                    const Recipe& recipe) {
  Position& input = found.checkpoint.manifest.progress.input;
  if (flags.next_epoch && !input.empty()) {
    const std::int64_t epoch = input.front() + 1;
    std::ranges::fill(input, 0);
    input.front() = epoch;
  }
  try {
    trainer.resume(found);
  } catch (const ConfigError& problem) {
    const std::string what = problem.what();
    const std::string changed = model_changes(found, recipe);
    if (what.find("the state") != what.npos && !changed.empty())
      throw ConfigError("the checkpoint is of another model (" + changed + "): " + what +
                        " Put it back, or begin a new training in another --run-dir, from these "
                        "weights with init.weights if you like.");
    if (what.find(" is no position ") == what.npos) throw;
    throw ConfigError(what + " `lockstep resume " + flags.run_dir +
                      " --next-epoch` leaves out the rest of that epoch.");
  }
}

TrainFlags flags_to_resume(TrainFlags flags, const std::string& from) {
  if (!is_run(flags.run_dir))
    throw ConfigError("'" + flags.run_dir +
                      "' is no run: it has no recipe.toml and no checkpoints. `lockstep runs` "
                      "lists the runs there are.");
  flags.own_recipe = true;
  flags.recipe = recipe_of(flags.run_dir);
  std::int64_t step = 0;
  const auto read = std::from_chars(from.data(), from.data() + from.size(), step);
  const bool is_step = read.ec == std::errc() && read.ptr == from.data() + from.size();
  if (from == "best")
    flags.resume = find_checkpoint(flags.run_dir, Which::best).path;
  else if (is_step)
    flags.resume = checkpoint_path(checkpoints_of(flags.run_dir), step);
  else if (from != "newest")
    flags.resume = from;
  if (is_step && !fs::exists(flags.resume)) {
    std::string steps;
    for (const auto& listed : list_checkpoints(checkpoints_of(flags.run_dir)))
      steps += (steps.empty() ? "" : ", ") + std::to_string(listed.manifest.progress.step);
    throw ConfigError("'" + flags.run_dir + "' has no checkpoint of step " + from +
                      "; it has: " + (steps.empty() ? "none" : steps) + ".");
  }
  return flags;
}

}  // namespace lockstep::apps
