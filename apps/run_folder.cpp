#include "run_folder.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>

#include "recipe/recipe.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

/// Of a checkpoint with its own recipe's metric; larger is better, NaN: not evaluated.
double score(const Manifest& manifest) {
  const Recipe recipe =
      manifest.recipe.empty() ? Recipe{} : parse_recipe(manifest.recipe, "the checkpoint's recipe");
  const std::string name = word_of(recipe.evaluate.metric);
  const auto found = std::ranges::find_if(manifest.metrics, [&](const auto& metric) {
    return metric.first.substr(metric.first.find('/') + 1) == name;  // of any set
  });
  if (found == manifest.metrics.end()) return NAN;
  return recipe.evaluate.better == Better::higher ? found->second : -found->second;
}

/// The best that verifies.
std::optional<FoundCheckpoint> best_of(const std::string& folder) {
  std::multimap<double, std::string, std::greater<>> by_score;
  for (const ListedCheckpoint& listed : list_checkpoints(folder))
    if (const double own = score(listed.manifest); !std::isnan(own))
      by_score.emplace(own, listed.path);
  for (const auto& [own, path] : by_score) try {
      return FoundCheckpoint{path, load_checkpoint(path)};
    } catch (const CorruptFile& problem) {
      std::cerr << "lockstep: skipped: " << problem.what() << "\n";
    } catch (const IoError& problem) {
      std::cerr << "lockstep: skipped: " << problem.what() << "\n";
    }
  std::cerr << "note: no whole checkpoint has an evaluation, so the newest is taken\n";
  return std::nullopt;
}

}  // namespace

std::string checkpoints_of(const std::string& run) { return run + "/checkpoints"; }

void write_file(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  if (!file.flush()) throw IoError(path, "write", errno);
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
  for (const std::string& problem : problems) std::cerr << "lockstep: skipped: " << problem << "\n";
  if (!found) throw ConfigError("there is no whole checkpoint in '" + folder + "'.");
  return std::move(*found);
}

}  // namespace lockstep::apps
