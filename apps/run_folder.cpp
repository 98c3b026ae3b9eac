#include "run_folder.h"

#include <lockstep/error.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "recipe/family.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

/// What the newest checkpoint's recipe asks for.
Goal goal_of(const std::string& folder) {
  const auto listed = list_checkpoints(folder);
  const Recipe recipe = listed.empty() || listed.back().manifest.recipe.empty()
                            ? Recipe{}
                            : kept_recipe(listed.back().manifest.recipe, "the checkpoint's recipe");
  return {.metric = recipe.evaluate.metric, .higher_is_better = metric_of(recipe).higher_is_better};
}

void tell(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) std::cerr << "lockstep: skipped: " << problem << "\n";
}

/// The best that verifies.
std::optional<FoundCheckpoint> best_of(const std::string& folder) {
  std::vector<std::string> problems;
  auto found = load_best(folder, goal_of(folder), problems);
  tell(problems);
  if (!found) std::cerr << "note: no whole checkpoint has an evaluation, so the newest is taken\n";
  return found;
}

}  // namespace

std::string checkpoints_of(const std::string& run) { return run + "/checkpoints"; }

bool is_run(const std::string& path) {
  return fs::is_directory(checkpoints_of(path)) || fs::is_regular_file(path + "/recipe.toml");
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  if (!file.flush()) throw IoError(path, "write", errno);
}

void replace_file(const std::string& path, const std::string& content) {
  const std::string aside = path + ".new";
  write_file(aside, content);
  std::error_code error;
  fs::rename(aside, path, error);
  if (error) throw IoError(path, "replace", error.value());
}

FoundCheckpoint find_checkpoint(const std::string& path, Which which) {
  if (fs::exists(path + "/manifest.json")) return {path, load_checkpoint(path)};
  if (!fs::is_directory(path))
    throw ConfigError("there is no run and no checkpoint at '" + path + "'.");
  const std::string folder = fs::is_directory(checkpoints_of(path)) ? checkpoints_of(path) : path;
  if (which == Which::best)
    if (auto best = best_of(folder)) return std::move(*best);
  std::vector<std::string> problems;
  auto found = load_newest(folder, problems);
  tell(problems);
  if (!found) throw ConfigError("there is no whole checkpoint in '" + folder + "'.");
  return std::move(*found);
}

}  // namespace lockstep::apps
