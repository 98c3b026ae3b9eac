#pragma once

// Checkpoints. Each is a folder with the tensors as safetensors under the model's own names, and a
// manifest with everything else. A checkpoint saved on any number of devices loads on any other.
// The format is in docs/checkpoints.md.

#include <lockstep/goal.h>
#include <lockstep/manifest.h>
#include <lockstep/state.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class Machines;

struct Checkpoint {
  Manifest manifest = {};  ///< its step and loss scale are those of the state
  State state = {};
  std::map<std::string, std::string> files =
      {};  ///< other files that belong to it, by name: a vocabulary
};

/// Writes a checkpoint beside `path`, then renames it to `path`, replacing one that is there: so
/// `path` is whole at every moment. Weights and buffers are spread over `weight_files` files.
/// Returns the bytes written. Throws IoError.
std::uint64_t save_checkpoint(const std::string& path, const Checkpoint& checkpoint,
                              int weight_files = 1);

/// The same for a state alone: what a loop of your own needs to resume.
std::uint64_t save_checkpoint(const std::string& path, const State& state);

/// Reads and verifies a checkpoint. Throws IoError, or CorruptFile with the file that was altered.
Checkpoint load_checkpoint(const std::string& path);

struct ListedCheckpoint {
  std::string path;
  Manifest manifest;
};

/// The checkpoints in a folder, ascending by step. `problems` gets a line for each folder that
/// looks like a checkpoint but has no readable manifest.
std::vector<ListedCheckpoint> list_checkpoints(const std::string& folder,
                                               std::vector<std::string>* problems = nullptr);

/// The path of the checkpoint of a step in a folder.
std::string checkpoint_path(const std::string& folder, std::int64_t step);

struct FoundCheckpoint {
  std::string path;
  Checkpoint checkpoint;
};

/// The newest checkpoint in a folder that verifies; `problems` names those that did not.
std::optional<FoundCheckpoint> load_newest(const std::string& folder,
                                           std::vector<std::string>& problems);

/// The best checkpoint by a goal among those that verify; `problems` names better ones that do not.
std::optional<FoundCheckpoint> load_best(const std::string& folder, const Goal& goal,
                                         std::vector<std::string>& problems);

/// What the first machine brings, or nothing if it brings nothing, on all of them: they need no
/// file system in common. All call it; what the others bring does not count.
std::optional<FoundCheckpoint> from_first(Machines& machines,
                                          const std::optional<FoundCheckpoint>& own);

/// Reserves a folder of checkpoints for this process until the handle is gone; makes the folder if
/// it does not exist. Throws ConfigError that names the process when another one has it. See
/// TrainerOptions::lock.
std::shared_ptr<void> lock_checkpoints(const std::string& folder);

/// The SHA-256 that tells which weights these are: of a file, its own; of a checkpoint, that of the
/// lines that `sha256sum averages.safetensors weights*.safetensors` prints in its folder. Those of
/// a checkpoint are in its manifest, and are not computed anew. Throws IoError, or CorruptFile.
std::string checksum_of(const std::string& path);

/// Tensors of one safetensors file, in the order of their names.
std::vector<NamedTensor> load_tensors(const std::string& path);
/// `metadata` is what Python's `safe_open(path, "pt").metadata()` gives, besides the format.
void save_tensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                  const std::map<std::string, std::string>& metadata = {});

}  // namespace lockstep
