#pragma once

// What is known of a run without loading its weights: for `runs` and `compare`.

#include <lockstep/checkpoint.h>

#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace lockstep::apps {

struct KnownRun {
  std::string path;
  std::optional<Recipe> recipe = std::nullopt;  ///< nothing: none that this program can read
  std::string problem = {};                     ///< why not
  std::int64_t step = 0;
  double seconds = 0;
  std::int64_t time = 0;    ///< of the newest checkpoint; 0: there is none
  std::string metric = {};  ///< "test/accuracy"; empty: it was never evaluated
  double best = 0;
  std::int64_t best_step = 0;
  std::map<std::string, double> metrics = {};  ///< of the newest checkpoint that has some
  std::vector<std::string> devices = {};       ///< of its last session
};

/// Throws ConfigError when there is no run at `path`.
KnownRun known_run(const std::string& path);

/// Those in a folder, by name, and in its sub-folders.
std::vector<KnownRun> runs_in(const std::string& folder);

/// "2026-11-18 15:30", in this machine's time.
std::string when(std::int64_t time);

}  // namespace lockstep::apps
