// `lockstep export`: plain weights from a checkpoint, with what they mean.

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "exit_codes.h"
#include "load_model.h"
#include "recipe/recipe.h"
#include "run_folder.h"

namespace lockstep::apps {
namespace {

struct ExportFlags {
  std::string path;
  std::string output;
  std::string weights = "auto";
  bool newest = false;
  bool force = false;
};

/// Throws ConfigError for a name that promises what the file would not be.
void require_name(const std::string& output) {
  const std::string ending = std::filesystem::path(output).extension().string();
  if (ending == ".safetensors" || ending.empty()) return;
  throw ConfigError("'" + output + "': export writes safetensors files, and a name that ends in " +
                    ending + " promises another format: end it in .safetensors. In Python, " +
                    "safetensors.torch.load_file reads it, and torch.save makes a .pt file of "
                    "that.");
}

/// Whether text can stand in a safetensors header; a SentencePiece model cannot.
bool is_text(const std::string& content) try {
  return content.find('\0') == content.npos && !nlohmann::json(content).dump().empty();
} catch (const nlohmann::json::exception&) {  // it is no UTF-8
  return false;
}

/// The recipe, and the files that say what inputs and outputs mean: classes, normalisation, tokens.
std::map<std::string, std::string> meaning_of(const Checkpoint& checkpoint, bool averaged) {
  const Manifest& manifest = checkpoint.manifest;
  std::map<std::string, std::string> metadata = {{"lockstep", manifest.lockstep_version},
                                                 {"step", std::to_string(manifest.progress.step)},
                                                 {"weights", averaged ? "averaged" : "live"}};
  if (!manifest.recipe.empty()) {
    metadata["recipe"] = manifest.recipe;
    metadata["family"] = kept_recipe(manifest.recipe, "the checkpoint's recipe").family;
  }
  for (const auto& [name, content] : checkpoint.files)
    if (is_text(content)) metadata[name] = content;
  return metadata;
}

/// Writes the files that no header can hold beside the weights. Returns their paths.
std::vector<std::string> write_others(const Checkpoint& checkpoint, const ExportFlags& flags) {
  std::vector<std::string> paths;
  for (const auto& [name, content] : checkpoint.files) {
    if (is_text(content)) continue;
    paths.push_back(flags.output + "." + name);
    if (!flags.force && std::filesystem::exists(paths.back()))
      throw ConfigError("'" + paths.back() + "' is there already: --force writes over it.");
    write_file(paths.back(), content);
  }
  return paths;
}

int export_weights(const ExportFlags& flags) {
  require_name(flags.output);
  if (!flags.force && std::filesystem::exists(flags.output))
    throw ConfigError("'" + flags.output + "' is there already: --force writes over it.");
  const FoundCheckpoint found =
      find_checkpoint(flags.path, flags.newest ? Which::newest : Which::best);
  const bool averaged = takes_averages(flags.weights, found);
  // A checkpoint's files of weights have frozen parameters and buffers as well.
  std::vector<NamedTensor> tensors = found.checkpoint.state.parameters;
  if (averaged) {
    std::map<std::string, torch::Tensor> averages;
    for (const NamedTensor& average : found.checkpoint.state.averages)
      averages[average.name] = average.value;
    for (NamedTensor& tensor : tensors)
      if (const auto average = averages.find(tensor.name); average != averages.end())
        tensor.value = average->second;
  }
  const auto others = write_others(found.checkpoint, flags);
  save_tensors(flags.output, tensors, meaning_of(found.checkpoint, averaged));
  std::cout << flags.output << ": " << tensors.size() << " tensors, "
            << (averaged ? "averaged" : "live") << " weights of " << found.path << "\n";
  for (const std::string& path : others) std::cout << path << ": belongs to it\n";
  return kDone;
}

}  // namespace

void add_export(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app.add_subcommand("export",
                                         "Writes the weights of a run's best checkpoint as one "
                                         "safetensors file, with what they mean.");
  command->add_option("path", flags->path, "a run, its folder of checkpoints, or one checkpoint")
      ->required();
  command->add_option("output", flags->output, "the file to write: model.safetensors")->required();
  command
      ->add_option("--weights", flags->weights,
                   "live, averaged, or auto: moving averages in place of the parameters, if there "
                   "are")
      ->check(CLI::IsMember({"auto", "live", "averaged"}));
  const auto best = std::make_shared<bool>(false);
  CLI::Option* newest =
      command->add_flag("--newest", flags->newest,
                        "of a run, the newest checkpoint; else the best by the recipe's metric");
  command->add_flag("--best", *best, "of a run, the best checkpoint: the default")
      ->excludes(newest);
  command->add_flag("--force", flags->force, "write over the file if it is there");
  command->footer(
      "The header's metadata has the recipe, the family, and the files of the checkpoint that are "
      "texts, such as images.json with the classes; others, such as tokens, are written beside.");
  command->callback([=, &run] { run = [flags] { return export_weights(*flags); }; });
}

}  // namespace lockstep::apps
