#pragma once

// What a run leaves behind, in one folder:
//
//   recipe.toml             what was trained, every field
//   checkpoints/step-...    see docs/checkpoints.md
//   events.out.tfevents...  for TensorBoard
//   metrics.csv             every loss and metric
//   session.json            the devices of the last session
//   pictures/               of the input and of the last evaluation, PNG

#include <lockstep/checkpoint.h>

#include <optional>
#include <string>

namespace lockstep::apps {

/// Where a run's checkpoints are.
std::string checkpoints_of(const std::string& run);

/// Whether a folder is a run: it has checkpoints, or the recipe of a training that was begun.
bool is_run(const std::string& path);

/// Writes a small file. Throws IoError.
void write_file(const std::string& path, const std::string& content);

/// The same beside it, and then in its place: it is whole at every moment.
void replace_file(const std::string& path, const std::string& content);

enum class Which { newest, best };

/// The checkpoint that a user means by `path`: one itself, the folder of checkpoints, or a run. Of
/// several the newest that verifies, or the best by the metric of its recipe. What is not whole is
/// named on the error stream. Throws ConfigError when there is none.
FoundCheckpoint find_checkpoint(const std::string& path, Which which = Which::newest);

}  // namespace lockstep::apps
