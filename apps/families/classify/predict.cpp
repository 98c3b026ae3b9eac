// `lockstep predict`: puts images into classes with a trained classifier.

#include <lockstep/error.h>
#include <lockstep/input.h>

#include <cerrno>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "exit_codes.h"
#include "families/classify/family_commands.h"
#include "families/classify/predictor.h"
#include "flag_checks.h"
#include "picture_files.h"
#include "signals.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

struct PredictFlags {
  PredictorFlags predictor;
  std::vector<std::string> images;
  int top = 3;
  bool json = false;
};

/// An image on its way to the model.
struct LoadedImage {
  std::string path = {};
  std::string problem = {};  ///< why it could not be read; empty: it was
  torch::Tensor input = {};
};

/// A source of the images in a list of files.
struct ImageList {
  std::vector<std::string> files;
  const Predictor* predictor;

  std::int64_t size() const { return std::ssize(files); }

  LoadedImage at(std::int64_t, std::int64_t index) const {
    LoadedImage loaded{.path = files[static_cast<std::size_t>(index)]};
    try {
      loaded.input = predictor->seen(loaded.path, read_picture(loaded.path));
    } catch (const std::runtime_error& problem) {
      loaded.problem = problem.what();
    }
    return loaded;
  }
};

void print(const std::string& path, const std::vector<Prediction>& found, bool json) {
  if (json) {
    nlohmann::ordered_json classes = nlohmann::ordered_json::array();
    for (const Prediction& one : found)
      classes.push_back({{"class", one.name}, {"score", one.score}});
    const nlohmann::ordered_json line = {{"file", path}, {"classes", classes}};
    std::cout << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << "\n";
    return;
  }
  std::cout << path << ":";
  for (const Prediction& one : found) std::cout << "  " << one.name << format(" %.3f", one.score);
  std::cout << "\n";
}

int predict(const PredictFlags& flags) {
  watch_signals();
  Predictor predictor(flags.predictor);
  const ImageList list{picture_files(flags.images), &predictor};
  std::cerr << predictor.about() << "\n";
  constexpr std::size_t kTogether = 16;
  const auto stream = input::prefetch(list, {.depth = 2 * kTogether, .workers = 2, .epochs = 1});
  std::int64_t bad = 0;
  for (bool more = true; more && !signalled();) {
    std::vector<std::string> paths;
    std::vector<torch::Tensor> inputs;
    while (inputs.size() < kTogether) {
      auto next = stream->next();
      if (!(more = next.has_value())) break;
      if (!next->problem.empty()) {
        ++bad;
        std::cerr << "lockstep: skipped: " << next->problem << "\n";
        continue;
      }
      inputs.push_back(next->input);
      paths.push_back(next->path);
    }
    if (inputs.empty()) continue;
    const auto found = predictor.predict(inputs, flags.top);
    for (std::size_t i = 0; i < paths.size(); ++i) print(paths[i], found[i], flags.json);
    if (!std::cout.flush()) throw IoError("the standard output", "write", errno);
  }
  if (bad > 0) std::cerr << bad << " of " << list.size() << " images skipped\n";
  if (bad == list.size())
    throw ConfigError("none of the " + std::to_string(bad) + " images could be read.");
  return signalled() ? kStopped : kDone;
}

}  // namespace

void add_predict(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<PredictFlags>();
  CLI::App* command =
      app.add_subcommand("predict", "Puts images into classes: lockstep predict RUN IMAGES...");
  command
      ->add_option("run", flags->predictor.path,
                   "a run, its folder of checkpoints, or one checkpoint")
      ->required();
  command->add_option("images", flags->images, "JPEG and PNG files, folders, or patterns")
      ->required();
  command->add_option("--top", flags->top, "so many classes of each image, the best first")
      ->check(whole_number(1));
  command->add_flag("--json", flags->json, "print a line of JSON for each image");
  command
      ->add_option("--weights", flags->predictor.weights,
                   "live, averaged, or auto: averaged if there are")
      ->check(CLI::IsMember({"auto", "live", "averaged"}));
  command->add_flag("--newest", flags->predictor.newest,
                    "of a run, the newest checkpoint; else the best");
  command->footer(
      "Prints a line for each image. An image that cannot be read is told and skipped.\n"
      "Exit codes: 0 done; 1 failed; 2 the user can put it right; 3 stopped by a signal.");
  command->callback([flags, &run] { run = [flags] { return predict(*flags); }; });
}

}  // namespace lockstep::apps
