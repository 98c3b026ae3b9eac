#include "run_list.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "recipe/family.h"
#include "run_folder.h"
#include "session_file.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The metric that its recipe judges by, where a checkpoint has it.
void take_best(const ListedCheckpoint& listed, KnownRun& run) {
  const auto& metrics = listed.manifest.metrics;
  if (!metrics.empty()) run.metrics = metrics;
  if (!run.recipe) return;
  const auto found = std::ranges::find_if(metrics, [&](const auto& metric) {
    return metric.first.ends_with("/" + run.recipe->evaluate.metric);
  });
  if (found == metrics.end() || !std::isfinite(found->second)) return;
  const bool higher = metric_of(*run.recipe).higher_is_better;
  if (!run.metric.empty() && !(higher ? found->second > run.best : found->second < run.best))
    return;
  run.metric = found->first;
  run.best = found->second;
  run.best_step = listed.manifest.progress.step;
}

}  // namespace

KnownRun known_run(const std::string& path) {
  if (!is_run(path))
    throw ConfigError("'" + path +
                      "' is no run: it has no recipe.toml and no checkpoints. `lockstep runs` "
                      "lists the runs there are.");
  KnownRun run{.path = path, .devices = session_devices(path)};
  const auto listed = list_checkpoints(checkpoints_of(path));
  try {
    const std::string own = path + "/recipe.toml";
    if (!listed.empty() && !listed.back().manifest.recipe.empty())
      run.recipe = kept_recipe(listed.back().manifest.recipe, "its checkpoint's recipe");
    else if (fs::exists(own))
      run.recipe = kept_recipe(text_of_file(own), own);
  } catch (const ConfigError& problem) {
    run.problem = problem.what();
  }
  for (const ListedCheckpoint& checkpoint : listed) take_best(checkpoint, run);
  if (listed.empty()) return run;
  run.step = listed.back().manifest.progress.step;
  run.seconds = listed.back().manifest.progress.seconds;
  run.time = listed.back().manifest.time;
  return run;
}

std::vector<KnownRun> runs_in(const std::string& folder) {
  if (!fs::is_directory(folder))
    throw ConfigError("there is no folder '" + folder +
                      "'. Runs are in the folder runs, unless --run-dir said otherwise: lockstep "
                      "runs FOLDER.");
  if (is_run(folder)) return {known_run(folder)};
  std::vector<std::string> paths;
  const auto options = fs::directory_options::skip_permission_denied;
  for (auto entry = fs::recursive_directory_iterator(folder, options);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (!entry->is_directory()) continue;
    constexpr int kDeepest = 3;
    const bool run = is_run(entry->path().string());
    if (run) paths.push_back(entry->path().string());
    if (run || entry.depth() >= kDeepest) entry.disable_recursion_pending();
  }
  std::ranges::sort(paths);
  std::vector<KnownRun> runs;
  for (const std::string& path : paths) runs.push_back(known_run(path));
  return runs;
}

std::string when(std::int64_t time) {
  if (time == 0) return "";
  const auto seconds = static_cast<std::time_t>(time);
  std::tm parts = {};
  localtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

}  // namespace lockstep::apps
