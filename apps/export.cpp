// `lockstep export`: plain weights from a checkpoint.

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <memory>

#include "commands.h"
#include "exit_codes.h"
#include "run_folder.h"

namespace lockstep::apps {
namespace {

struct ExportFlags {
  std::string path;
  std::string output;
  std::string weights = "live";
  bool best = false;
  bool force = false;
};

int export_weights(const ExportFlags& flags) {
  if (!flags.force && std::filesystem::exists(flags.output))
    throw ConfigError("'" + flags.output + "' is there already: --force writes over it.");
  const FoundCheckpoint found =
      find_checkpoint(flags.path, flags.best ? Which::best : Which::newest);
  // A checkpoint's files of weights have frozen parameters and buffers as well.
  std::vector<NamedTensor> tensors = found.checkpoint.state.parameters;
  if (flags.weights == "averaged") {
    std::map<std::string, torch::Tensor> averages;
    for (const NamedTensor& average : found.checkpoint.state.averages)
      averages[average.name] = average.value;
    if (averages.empty())
      throw ConfigError("'" + found.path + "' has no moving averages: --weights live.");
    for (NamedTensor& tensor : tensors)
      if (const auto average = averages.find(tensor.name); average != averages.end())
        tensor.value = average->second;
  }
  save_tensors(flags.output, tensors);
  std::cout << flags.output << ": " << tensors.size() << " tensors, " << flags.weights
            << " weights of " << found.path << "\n";
  return kDone;
}

}  // namespace

void add_export(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app.add_subcommand(
      "export", "Writes the plain weights of a checkpoint, buffers too, as one safetensors file.");
  command->add_option("path", flags->path, "a run, its folder of checkpoints, or one checkpoint")
      ->required();
  command->add_option("output", flags->output, "the file to write: model.safetensors")->required();
  command
      ->add_option("--weights", flags->weights,
                   "live, or averaged: moving averages in place of the parameters")
      ->check(CLI::IsMember({"live", "averaged"}));
  command->add_flag("--best", flags->best,
                    "of a run, the best checkpoint by the recipe's metric; else the newest");
  command->add_flag("--force", flags->force, "write over the file if it is there");
  command->callback([flags, &run] { run = [flags] { return export_weights(*flags); }; });
}

}  // namespace lockstep::apps
