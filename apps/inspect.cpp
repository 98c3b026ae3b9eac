// `lockstep inspect`: what is in a checkpoint, and whether it is whole.

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>

#include "commands.h"
#include "console.h"
#include "exit_codes.h"
#include "run_folder.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

std::string time_text(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts = {};
  gmtime_r(&time, &parts);
  std::ostringstream text;
  text << std::put_time(&parts, "%Y-%m-%d %H:%M:%S UTC");
  return text.str();
}

std::string shape_text(const torch::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

double norm_of(const torch::Tensor& tensor) {
  return tensor.to(torch::kFloat64).norm().item<double>();
}

void print_tensors(const std::string& title, const std::vector<NamedTensor>& tensors) {
  if (tensors.empty()) return;
  std::int64_t values = 0;
  std::size_t width = 0;
  for (const NamedTensor& tensor : tensors) {
    values += tensor.value.numel();
    width = std::max(width, tensor.name.size());
  }
  std::cout << "\n" << title << ": " << tensors.size() << " tensors, " << values << " values\n";
  for (const NamedTensor& tensor : tensors)
    std::cout << "  " << std::left << std::setw(static_cast<int>(width) + 2) << tensor.name
              << std::setw(10) << torch::toString(tensor.value.scalar_type()) << std::setw(20)
              << shape_text(tensor.value) << format("norm %.6g", norm_of(tensor.value)) << "\n";
}

/// The versions of the weights that gradients to come are computed with, a line each.
void print_older(const State& state) {
  if (!state.older.empty())
    std::cout << "\nolder weights, for the gradients that are computed with them:\n";
  std::int64_t step = state.steps - std::ssize(state.older);
  for (const OlderVersion& version : state.older) {
    double squares = 0;
    for (const NamedTensor& tensor : version.parameters)
      if (tensor.value.is_floating_point()) squares += std::pow(norm_of(tensor.value), 2);
    std::cout << "  of step " << step++ << ": " << version.parameters.size() << " tensors, "
              << format("norm %.6g", std::sqrt(squares))
              << (version.loss_scale > 0 ? format(", loss scale %.6g", version.loss_scale) : "")
              << "\n";
  }
}

void print_manifest(const std::string& path, const Manifest& manifest) {
  const TrainingProgress& progress = manifest.progress;
  std::cout << path << "\n"
            << "whole: every file has the size and the SHA-256 of the manifest\n"
            << "step " << progress.step << ", " << manifest.updates << " updates, epoch "
            << progress.epoch() << ", "
            << (progress.rows ? std::to_string(*progress.rows) + " samples, " : "")
            << duration_text(Seconds(progress.seconds)) << " of training\n"
            << "input position";
  for (const std::int64_t number : progress.input) std::cout << " " << number;
  std::cout << ", seed " << manifest.seed << ", " << manifest.shards << " shards\n"
            << "written " << time_text(manifest.time) << " by Lockstep "
            << manifest.lockstep_version << " with LibTorch " << manifest.torch_version << "\n";
  if (!manifest.metrics.empty()) std::cout << "metrics: " << line_of(manifest.metrics) << "\n";
  for (const ManifestFile& file : manifest.files)
    std::cout << "  " << file.name << "  " << file.bytes << " bytes  sha256 " << file.sha256
              << "\n";
}

/// Every checkpoint of a folder, a line each. Returns how many are not whole.
int print_list(const std::string& folder) {
  std::vector<std::string> problems;
  std::cout << folder << "\n";
  for (const ListedCheckpoint& listed : list_checkpoints(folder, &problems)) {
    std::string state = "whole";
    try {
      load_checkpoint(listed.path);
    } catch (const std::exception& problem) {
      state = "NOT WHOLE";
      problems.emplace_back(problem.what());
    }
    std::cout << "  " << std::filesystem::path(listed.path).filename().string() << "  " << state
              << "  " << time_text(listed.manifest.time) << "  " << line_of(listed.manifest.metrics)
              << "\n";
  }
  for (const std::string& problem : problems) std::cout << "problem: " << problem << "\n";
  std::cout << "\n";
  return static_cast<int>(problems.size());
}

int not_whole(const std::exception& problem) {
  std::cout << "NOT WHOLE: " << problem.what() << "\n";
  return kFailed;
}

int inspect(const std::string& path) {
  int problems = 0;
  if (!std::filesystem::exists(path + "/manifest.json") && std::filesystem::is_directory(path))
    problems = print_list(std::filesystem::is_directory(checkpoints_of(path)) ? checkpoints_of(path)
                                                                              : path);
  FoundCheckpoint found;
  try {
    found = find_checkpoint(path);
  } catch (const CorruptFile& problem) {
    return not_whole(problem);
  } catch (const IoError& problem) {
    return not_whole(problem);
  }
  print_manifest(found.path, found.checkpoint.manifest);
  print_tensors("weights", found.checkpoint.state.parameters);
  print_tensors("averages", found.checkpoint.state.averages);
  print_tensors("slots", found.checkpoint.state.slots);
  print_older(found.checkpoint.state);
  return problems == 0 ? kDone : kFailed;
}

}  // namespace

void add_inspect(CLI::App& app, Run& run) {
  const auto path = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("inspect", "Lists what is in a checkpoint, and verifies it.");
  command->add_option("path", *path, "a run, its folder of checkpoints, or one checkpoint")
      ->required();
  command->footer("Exit codes: 0 whole; 1 something is torn or altered, and is named.");
  command->callback([path, &run] { run = [path] { return inspect(*path); }; });
}

}  // namespace lockstep::apps
