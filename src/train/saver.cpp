#include "train/saver.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

namespace lockstep::train {

Saver::Saver(SaverOptions options) : options_(std::move(options)) {
  namespace fs = std::filesystem;
  std::vector<fs::path> left;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(options_.folder, ignored))
    if (const auto ending = entry.path().extension(); ending == ".new" || ending == ".old")
      left.push_back(entry.path());
  for (const fs::path& path : left) fs::remove_all(path, ignored);
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

bool Saver::among_best(double value) const {
  if (options_.keep.best <= 0 || std::isnan(value)) return false;
  const double own = options_.higher_is_better ? value : -value;
  const auto listed = list_checkpoints(options_.folder);
  return std::ranges::count_if(listed, [&](const ListedCheckpoint& other) {
           return score(options_, other.manifest) >= own;
         }) < options_.keep.best;
}

void Saver::set_aside_after(std::int64_t step) const {
  namespace fs = std::filesystem;
  // By name: one without a readable manifest is in the way too.
  const fs::path first = checkpoint_path(options_.folder, std::max<std::int64_t>(step + 1, 0));
  std::vector<fs::path> later;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(options_.folder, error))
    if (const fs::path name = entry.path().filename();
        name.string().starts_with("step-") && !name.has_extension() && name >= first.filename())
      later.push_back(entry.path());
  for (const fs::path& path : later) {
    std::string aside = path.string() + ".aside";
    for (int n = 2; fs::exists(aside); ++n) aside = path.string() + ".aside" + std::to_string(n);
    fs::rename(path, aside, error);
    if (error) throw IoError(path, "move aside", error.value());
  }
}

double Saver::score(const SaverOptions& options, const Manifest& manifest) {
  const auto found = manifest.metrics.find(options.metric);
  if (found == manifest.metrics.end()) return std::numeric_limits<double>::quiet_NaN();
  return options.higher_is_better ? found->second : -found->second;
}

SaveReport Saver::write(const SaverOptions& options, const Checkpoint& checkpoint,
                        Seconds stood_still) {
  const auto begin = std::chrono::steady_clock::now();
  SaveReport report{.path = checkpoint_path(options.folder, checkpoint.state.steps),
                    .step = checkpoint.state.steps,
                    .stood_still = stood_still};
  try {
    report.bytes = save_checkpoint(report.path, checkpoint, options.weight_files);
    try {
      report.removed = remove_old(options);
    } catch (const std::exception& problem) {
      report.trouble = problem.what();
    }
  } catch (const std::exception& problem) {
    report.error = problem.what();
  }
  report.took = std::chrono::steady_clock::now() - begin;
  return report;
}

std::vector<std::string> Saver::remove_old(const SaverOptions& options) {
  namespace fs = std::filesystem;
  const auto listed = list_checkpoints(options.folder);
  std::vector<Candidate> candidates;
  for (const ListedCheckpoint& found : listed)
    candidates.push_back(
        {found.manifest.progress.step, found.manifest.time, score(options, found.manifest)});
  const std::vector<bool> stays = kept(options.keep, candidates);
  std::vector<std::string> removed;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (stays[i]) continue;
    // Renamed first: what is half removed does not look like a checkpoint.
    const std::string aside = listed[i].path + ".old";
    std::error_code error;
    fs::remove_all(aside, error);
    fs::rename(listed[i].path, aside, error);
    if (!error) fs::remove_all(aside, error);
    if (error) throw IoError(listed[i].path, "remove", error.value());
    removed.push_back(listed[i].path);
  }
  return removed;
}

}  // namespace lockstep::train
