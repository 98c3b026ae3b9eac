#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <numeric>

#include "base/file.h"
#include "base/folder_lock.h"
#include "base/new_folder.h"
#include "base/sha256.h"
#include "base/version.h"
#include "train/tensor_file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kPrefix = "step-";
constexpr std::uint64_t kMostManifestBytes = std::uint64_t{64} << 20U;
constexpr std::uint64_t kMostPlainBytes = std::uint64_t{1} << 30U;

/// Tensors spread over n lists of about the same size: the largest first, each to the list that is
/// shortest so far. There are at most as many lists as tensors, and at least one.
std::vector<std::vector<NamedTensor>> spread(std::vector<NamedTensor> tensors, int n) {
  std::ranges::stable_sort(
      tensors, [](const auto& a, const auto& b) { return a.value.nbytes() > b.value.nbytes(); });
  const auto count = std::clamp<std::size_t>(static_cast<std::size_t>(n), 1,
                                             std::max<std::size_t>(tensors.size(), 1));
  std::vector<std::vector<NamedTensor>> lists(count);
  std::vector<std::uint64_t> bytes(count, 0);
  for (NamedTensor& tensor : tensors) {
    const auto shortest = static_cast<std::size_t>(std::ranges::min_element(bytes) - bytes.begin());
    bytes[shortest] += tensor.value.nbytes();
    lists[shortest].push_back(std::move(tensor));
  }
  return lists;
}

/// "weights.safetensors", or "weights-00001-of-00004.safetensors".
std::string file_name(const std::string& holds, std::size_t i, std::size_t count) {
  if (count == 1) return holds + ".safetensors";
  char number[32];
  std::snprintf(number, sizeof number, "-%05zu-of-%05zu", i + 1, count);
  return holds + number + ".safetensors";
}

/// Writes one kind of tensors into `folder`, a file a list, and adds the files to the manifest.
void write_kind(const std::string& folder, const std::string& holds,
                const std::vector<std::vector<NamedTensor>>& lists, Manifest& manifest) {
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const std::string name = file_name(holds, i, lists.size());
    base::File file(folder + "/" + name);
    const train::WrittenFile written = train::write_tensors(file, lists[i]);
    file.close();
    manifest.files.push_back({name, holds, written.bytes, written.sha256});
  }
}

/// Writes a file that is no tensors into `folder` and adds it to the manifest.
void write_plain(const std::string& folder, const std::string& name, const std::string& content,
                 Manifest& manifest) {
  const std::string path = folder + "/" + name;
  if (fs::exists(path) || name == kManifest || fs::path(name).filename() != name)
    throw ConfigError("a file of a checkpoint cannot be called '" + name +
                      "': that is another's name, or none.");
  base::File file(path);
  file.write(content);
  file.close();
  manifest.files.push_back({name, "file", content.size(), base::sha256_of_file(path)});
}

std::vector<NamedTensor> joined(std::vector<NamedTensor> all,
                                const std::vector<NamedTensor>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// What a model's state_dict has: parameters, frozen ones too, and buffers.
std::vector<NamedTensor> weights_of(const State& state) {
  return joined(joined(state.parameters, state.frozen), state.buffers);
}

/// A file for each version of the weights that gradients to come are computed with.
void write_older(const std::string& folder, const std::vector<OlderVersion>& older,
                 Manifest& manifest) {
  std::vector<std::vector<NamedTensor>> lists;
  for (const OlderVersion& version : older)
    lists.push_back(joined(version.parameters, version.buffers));
  const std::size_t first = manifest.files.size();
  write_kind(folder, "older", lists, manifest);
  for (std::size_t i = 0; i < older.size(); ++i)
    manifest.files[first + i].loss_scale = older[i].loss_scale;
}

void verify(const std::string& folder, const ManifestFile& file) {
  const std::string path = folder + "/" + file.name;
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (error) throw IoError(path, "examine", error.value());
  if (bytes != file.bytes)
    throw CorruptFile(path, std::min<std::uint64_t>(bytes, file.bytes),
                      std::to_string(file.bytes) + " bytes, as its manifest says; it has " +
                          std::to_string(bytes));
  if (base::sha256_of_file(path) != file.sha256)
    throw CorruptFile(path, 0, "the SHA-256 of its manifest; the file was altered");
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifest;
  return parse_manifest(path, base::read_file(path, kMostManifestBytes));
}

}  // namespace

std::uint64_t save_checkpoint(const std::string& path, const State& state) {
  Checkpoint checkpoint;
  checkpoint.state = state;
  return save_checkpoint(path, checkpoint);
}

std::uint64_t save_checkpoint(const std::string& path, const Checkpoint& checkpoint,
                              int weight_files) {
  const State& state = checkpoint.state;
  if (fs::exists(path) && !fs::exists(path + "/" + kManifest))
    throw IoError(path, "save a checkpoint in place of what is none", EEXIST);
  base::NewFolder folder(path);
  Manifest manifest = checkpoint.manifest;
  manifest.updates = state.updates;
  manifest.updates_of = state.updates_of;
  manifest.held = state.held;
  manifest.changed = state.changed;
  manifest.loss_scale = state.loss_scale;
  manifest.good_steps = state.good_steps;
  manifest.progress.step = state.steps;
  manifest.lockstep_version = base::version();
  manifest.torch_version = TORCH_VERSION;
  manifest.files.clear();
  write_kind(folder.path(), "weights", spread(weights_of(state), weight_files), manifest);
  if (!state.slots.empty()) write_kind(folder.path(), "slots", {state.slots}, manifest);
  if (!state.averages.empty()) write_kind(folder.path(), "averages", {state.averages}, manifest);
  write_older(folder.path(), state.older, manifest);
  for (const auto& [name, content] : checkpoint.files)
    write_plain(folder.path(), name, content, manifest);
  const std::string json = to_json(manifest);
  base::File file(folder.path() + "/" + kManifest);
  file.write(json);
  file.close();
  folder.commit();
  return std::accumulate(manifest.files.begin(), manifest.files.end(), std::uint64_t{json.size()},
                         [](std::uint64_t sum, const ManifestFile& f) { return sum + f.bytes; });
}

Checkpoint load_checkpoint(const std::string& path) {
  Checkpoint checkpoint{.manifest = read_manifest(path)};
  const Manifest& manifest = checkpoint.manifest;
  State& state = checkpoint.state;
  state.steps = manifest.progress.step;
  state.updates = manifest.updates;
  state.updates_of = manifest.updates_of;
  state.held = manifest.held;
  state.changed = manifest.changed;
  state.loss_scale = manifest.loss_scale;
  state.good_steps = manifest.good_steps;
  std::map<std::string, std::vector<NamedTensor>*> lists = {
      {"weights", &state.parameters}, {"slots", &state.slots}, {"averages", &state.averages}};
  for (const ManifestFile& file : manifest.files) {
    verify(path, file);
    if (file.holds == "file") {
      checkpoint.files[file.name] = base::read_file(path + "/" + file.name, kMostPlainBytes);
      continue;
    }
    std::vector<NamedTensor> tensors = load_tensors(path + "/" + file.name);
    if (file.holds == "older")
      state.older.push_back({tensors, tensors, file.loss_scale});
    else
      std::ranges::move(tensors, std::back_inserter(*lists.at(file.holds)));
  }
  // Files of weights have all of them: a model takes each by its name.
  state.buffers = state.frozen = state.parameters;
  return checkpoint;
}

std::string checksum_of(const std::string& path) {
  if (!fs::is_directory(path)) return base::sha256_of_file(path);
  std::map<std::string, std::string> files;  // by name
  for (const ManifestFile& file : read_manifest(path).files)
    if (file.holds == "weights" || file.holds == "averages") files[file.name] = file.sha256;
  base::Sha256 hash;
  for (const auto& [name, sha256] : files) hash.update(sha256 + "  " + name + "\n");
  return hash.hex();
}

std::shared_ptr<void> lock_checkpoints(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw IoError(folder, "make the folder", error.value());
  return std::make_shared<base::FolderLock>(folder);
}

std::string checkpoint_path(const std::string& folder, std::int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "%s%09lld", kPrefix, static_cast<long long>(step));
  return folder + "/" + name;
}

std::vector<ListedCheckpoint> list_checkpoints(const std::string& folder,
                                               std::vector<std::string>* problems) {
  std::vector<ListedCheckpoint> listed;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix) || name.find('.') != std::string::npos) continue;
    try {
      listed.push_back({entry.path(), read_manifest(entry.path())});
    } catch (const std::exception& problem) {
      if (problems) problems->emplace_back(problem.what());
    }
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw IoError(folder, "list", error.value());
  std::ranges::sort(listed, {}, [](const auto& found) { return found.manifest.progress.step; });
  return listed;
}

namespace {

/// The first that verifies.
std::optional<FoundCheckpoint> load_first(const std::vector<ListedCheckpoint>& listed,
                                          std::vector<std::string>& problems) {
  for (const ListedCheckpoint& found : listed) try {
      return FoundCheckpoint{found.path, load_checkpoint(found.path)};
    } catch (const IoError& problem) {
      problems.emplace_back(problem.what());
    } catch (const CorruptFile& problem) {
      problems.emplace_back(problem.what());
    }
  return std::nullopt;
}

}  // namespace

std::optional<FoundCheckpoint> load_newest(const std::string& folder,
                                           std::vector<std::string>& problems) {
  auto listed = list_checkpoints(folder, &problems);
  std::ranges::reverse(listed);
  return load_first(listed, problems);
}

std::optional<FoundCheckpoint> load_best(const std::string& folder, const Goal& goal,
                                         std::vector<std::string>& problems) {
  auto listed = list_checkpoints(folder);
  const auto worth = [&](const ListedCheckpoint& found) {
    return score(goal, found.manifest.metrics);
  };
  std::erase_if(listed, [&](const auto& found) { return std::isnan(worth(found)); });
  std::ranges::stable_sort(listed, std::ranges::greater(), worth);
  return load_first(listed, problems);
}

}  // namespace lockstep
