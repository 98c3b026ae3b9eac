#pragma once

// The manifest of a checkpoint: what is in it, and the plain numbers needed to resume. JSON;
// docs/checkpoints.md has every field. It holds no device count.

#include <lockstep/method.h>
#include <lockstep/progress.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// One file of a checkpoint.
struct ManifestFile {
  std::string name;   ///< in the checkpoint's folder
  std::string holds;  ///< "weights", "slots", "averages", "older" or "file"
  std::uint64_t bytes = 0;
  std::string sha256;     ///< 64 hexadecimal digits, as sha256sum prints
  double loss_scale = 0;  ///< of a file that holds an OlderVersion: its own
};

struct Manifest {
  std::int64_t updates = 0;  ///< steps that were applied
  /// Of a parameter, by its name, where they are others: see State::updates_of.
  std::map<std::string, std::int64_t> updates_of = {};
  std::map<std::string, std::string> changed = {};  ///< see State::changed
  std::vector<std::string> held = {};               ///< parameters that are not trained now
  double loss_scale = 0;                            ///< of float16; 0: trained in another precision
  std::int64_t good_steps = 0;
  TrainingProgress progress = {};
  std::uint64_t seed = 0;
  int shards = 0;
  /// What else fixes the result, as fields_of() gives it; empty in older checkpoints.
  std::map<std::string, std::string> method = {};
  std::int64_t time = 0;                       ///< when it was written: seconds since 1970
  std::map<std::string, double> metrics = {};  ///< of evaluations at this step: "test/accuracy"
  std::string recipe = {};                     ///< TOML, when the program trained it
  std::string lockstep_version = {};
  std::string torch_version = {};
  std::vector<ManifestFile> files = {};
};

/// In what `method` differs from the one of this checkpoint.
std::vector<FieldChange> changes(const Manifest& manifest, const Method& method);

std::string to_json(const Manifest& manifest);

/// Throws CorruptFile with `path` and the field that is missing or wrong.
Manifest parse_manifest(const std::string& path, const std::string& text);

}  // namespace lockstep
