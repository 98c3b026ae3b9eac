// `lockstep init`: a short recipe for the user's own data.

#include <lockstep/error.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "commands.h"
#include "exit_codes.h"
#include "guess_recipe.h"
#include "recipe/recipe.h"
#include "run_folder.h"

namespace lockstep::apps {
namespace {

struct InitFlags {
  std::vector<std::string> paths;
  std::string output;
  bool force = false;
};

/// "photos.toml" for data/photos/.
std::string default_output(const std::string& path) {
  namespace fs = std::filesystem;
  fs::path data = fs::absolute(path).lexically_normal();
  if (data.filename().empty()) data = data.parent_path();
  const std::string stem = data.stem().string();
  return (stem.empty() ? "recipe" : stem) + ".toml";
}

int init(InitFlags flags) {
  const GuessedRecipe guessed = guess_recipe(flags.paths);
  parse_recipe(guessed.text, "the recipe that init made");
  const std::string text =
      "# Written by `lockstep init`: " + guessed.about +
      ".\n# Fields that are not here have their defaults: docs/recipes.md, or lockstep train "
      "--help.\n\n" +
      guessed.text;
  if (flags.output == "-") {
    std::cout << text;
    return kDone;
  }
  if (flags.output.empty()) flags.output = default_output(flags.paths.front());
  if (!flags.force && std::filesystem::exists(flags.output))
    throw ConfigError("'" + flags.output + "' is there already: --force writes over it, and " +
                      "--out FILE writes elsewhere.");
  replace_file(flags.output, text);
  std::cout << flags.output << ": " << guessed.about << "\nnext: lockstep train " << flags.output
            << " --dry-run, and then without it\n";
  return kDone;
}

}  // namespace

void add_init(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<InitFlags>();
  CLI::App* command =
      app.add_subcommand("init", "Writes a short recipe for your data: lockstep init DATA.");
  command
      ->add_option("data", flags->paths,
                   "a file or folder of images, pictures with boxes or texts; or two files of "
                   "texts that belong together line by line")
      ->required()
      ->expected(1, 2);
  command->add_option("--out", flags->output,
                      "the file to write; - prints it. By default <data>.toml");
  command->add_flag("--force", flags->force, "write over the file if it is there");
  command->callback([flags, &run] { run = [flags] { return init(*flags); }; });
}

}  // namespace lockstep::apps
