#include "train/saver.h"

#include <lockstep/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/new_folder.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemoving = ".old";
constexpr const char* kManifest = "manifest.json";

/// The step of a name that checkpoint_path() makes. Any other name is the user's.
std::optional<std::int64_t> step_of(const std::string& name) {
  const std::string digits = name.substr(name.find('-') + 1);
  std::int64_t step = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (step < 0 || fs::path(checkpoint_path("", step)).filename() != name) return std::nullopt;
  return step;
}

/// Whether this is a checkpoint that was being written, or removed. The manifest is removed first:
/// what has one is a copy that the user made.
bool is_left_over(const fs::path& path) {
  std::error_code ignored;
  if (!step_of(path.stem()) || !fs::is_directory(fs::symlink_status(path, ignored))) return false;
  return base::NewFolder::is_ending(path.extension()) ||
         (path.extension() == kRemoving && !fs::exists(path / kManifest, ignored));
}

std::vector<fs::path> paths_in(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) paths.push_back(entry.path());
  return paths;
}

std::vector<ListedCheckpoint> own_checkpoints(const std::string& folder) {
  auto listed = list_checkpoints(folder);
  std::erase_if(listed,
                [](const auto& found) { return !step_of(fs::path(found.path).filename()); });
  return listed;
}

}  // namespace

Saver::Saver(SaverOptions options) : options_(std::move(options)) {
  std::error_code ignored;
  for (const fs::path& path : paths_in(options_.folder))
    if (is_left_over(path)) fs::remove_all(path, ignored);
}

bool Saver::busy() const {
  return writing_.valid() && writing_.wait_for(Seconds(0)) != std::future_status::ready;
}

void Saver::start(Checkpoint checkpoint, Seconds stood_still) {
  if (writing_.valid()) reports_.push_back(writing_.get());
  checkpoint.state.gradients.clear();
  writing_ = std::async(std::launch::async,
                        [options = options_, stood_still, saved = std::move(checkpoint)] {
                          return write(options, saved, stood_still);
                        });
}

std::vector<SaveReport> Saver::ended(bool wait) {
  if (writing_.valid() && (wait || !busy())) reports_.push_back(writing_.get());
  return std::exchange(reports_, {});
}

bool Saver::among_best(double score) const {
  if (options_.keep.best <= 0 || std::isnan(score)) return false;
  const auto listed = own_checkpoints(options_.folder);
  return std::ranges::count_if(listed, [&](const ListedCheckpoint& other) {
           return lockstep::score(options_.goal, other.manifest.metrics) >= score;
         }) < options_.keep.best;
}

void Saver::set_aside_after(std::int64_t step) const {
  // By name: one without a readable manifest is in the way too.
  for (const fs::path& path : paths_in(options_.folder)) {
    if (const auto own = step_of(path.filename()); !own || *own <= step) continue;
    std::string aside = path.string() + ".aside";
    for (int n = 2; fs::exists(aside); ++n) aside = path.string() + ".aside" + std::to_string(n);
    std::error_code error;
    fs::rename(path, aside, error);
    if (error) throw IoError(path, "move aside", error.value());
  }
}

SaveReport Saver::write(const SaverOptions& options, const Checkpoint& checkpoint,
                        Seconds stood_still) {
  const auto begin = std::chrono::steady_clock::now();
  SaveReport report{.path = checkpoint_path(options.folder, checkpoint.state.steps),
                    .step = checkpoint.state.steps,
                    .stood_still = stood_still};
  try {
    report.bytes = save_checkpoint(report.path, checkpoint, options.weight_files);
    remove_old(options, report);
  } catch (const std::exception& problem) {
    report.error = problem.what();
  }
  report.took = std::chrono::steady_clock::now() - begin;
  return report;
}

void Saver::remove_old(const SaverOptions& options, SaveReport& report) {
  try {
    const auto listed = own_checkpoints(options.folder);
    std::vector<Candidate> candidates;
    for (const ListedCheckpoint& found : listed)
      candidates.push_back({found.manifest.progress.step, found.manifest.time,
                            score(options.goal, found.manifest.metrics)});
    const std::vector<bool> stays = kept(options.keep, candidates);
    for (std::size_t i = 0; i < listed.size(); ++i)
      if (!stays[i] && remove(listed[i].path, report)) report.removed.push_back(listed[i].path);
  } catch (const std::exception& problem) {
    report.trouble = problem.what();
  }
}

/// Renames it first: what is half removed does not look like a checkpoint. What has the new name
/// already is the user's, and stays.
bool Saver::remove(const std::string& path, SaveReport& report) {
  const std::string aside = path + kRemoving;
  std::error_code error;
  if (fs::exists(fs::symlink_status(aside, error)))
    error = std::make_error_code(std::errc::file_exists);
  else
    fs::rename(path, aside, error);
  if (error) {
    report.trouble = IoError(path, "rename to " + aside + " and remove", error.value()).what();
    return false;
  }
  fs::remove(fs::path(aside) / kManifest, error);
  fs::remove_all(aside, error);
  if (error) report.trouble = IoError(aside, "remove", error.value()).what();
  return !error;
}

}  // namespace lockstep::train
