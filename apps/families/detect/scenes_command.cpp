// `lockstep scenes`: makes a data set for detectors.

#include <lockstep/error.h>

#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>

#include "exit_codes.h"
#include "families/detect/family_commands.h"
#include "families/detect/scenes.h"
#include "signals.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

/// Thrown to end the making.
struct ScenesStopped {};

/// "  bird      1229   301   129", a line for each class.
std::string box_table(const SceneSummary& summary) {
  std::ostringstream table;
  table << "  " << std::left << std::setw(16) << "boxes" << std::right;
  for (const char* set : kSceneSets) table << std::setw(10) << set;
  for (std::size_t i = 0; i < summary.classes.size(); ++i) {
    table << "\n  " << std::left << std::setw(16) << summary.classes[i] << std::right;
    for (const auto& boxes : summary.boxes) table << std::setw(10) << boxes[i];
  }
  return table.str();
}

int scenes(const SceneOptions& options) {
  if (!options.replace && std::filesystem::exists(options.folder))
    throw ConfigError("'" + options.folder + "' is there already: --force replaces it.");
  watch_signals();
  StatusLine line;
  SceneSummary summary;
  try {
    summary = make_scenes(options, [&](std::int64_t done, std::int64_t total) {
      if (signalled()) throw ScenesStopped();
      if (line.due())
        line.show("scenes " + bar(static_cast<double>(done) / static_cast<double>(total), 30) +
                  " " + std::to_string(done) + " of " + std::to_string(total));
    });
  } catch (const ScenesStopped&) {
    line.print("stopped: nothing was made");
    return kStopped;
  }
  const std::string size = std::to_string(options.size);
  line.print(options.folder + ": pictures of " + size + "x" + size + ": " +
             std::to_string(options.train) + " train, " + std::to_string(options.val) + " val, " +
             std::to_string(options.val_seen) + " val_seen");
  line.print(box_table(summary));
  return kDone;
}

}  // namespace

void add_scenes(CLI::App& app, Run& run) {
  const auto options = std::make_shared<SceneOptions>();
  CLI::App* command = app.add_subcommand(
      "scenes", "Makes pictures with boxes to train a detector on, of cut-outs and backgrounds.");
  const auto count = [&](const char* flag, int& value, const char* help, int least, int most) {
    command->add_option(flag, value, help)->check(CLI::Range(least, most))->capture_default_str();
  };
  constexpr int kMost = 999'999;
  command->add_option("folder", options->folder, "the folder to make")->required();
  count("--train", options->train, "pictures to train on", 1, kMost);
  count("--val", options->val, "pictures of other things on other backgrounds", 1, kMost);
  count("--seen", options->val_seen, "pictures of the same things on other backgrounds", 0, kMost);
  count("--size", options->size, "width and height of a picture", 32, 4096);
  command->add_option("--seed", options->seed, "another seed makes other scenes")
      ->capture_default_str();
  command->add_option("--material", options->material,
                      "a folder with cutouts/CLASS/*.png and backgrounds/*.jpg; else what "
                      "scripts/setup --scenes fetched");
  count("--workers", options->workers, "threads", 1, 1024);
  command->add_flag("--force", options->replace, "replace scenes that are there");
  command->footer(
      "A quarter of the cut-outs of each class and of the backgrounds is kept for val. Pictures\n"
      "whose names are equal up to the first dot show the same thing, and are not split.\n"
      "Train on them with --set data.path=FOLDER.");
  command->callback([options, &run] { run = [options] { return scenes(*options); }; });
}

}  // namespace lockstep::apps
