// The flags of `lockstep train` and `lockstep resume`.

#include <memory>

#include "commands.h"
#include "flag_checks.h"
#include "recipe/recipe.h"
#include "resuming.h"
#include "train.h"

namespace lockstep::apps {
namespace {

std::string recipes_text() {
  std::string text = "Recipes built in (or give the path of a TOML file):\n";
  for (const BuiltIn& recipe : built_in_recipes()) text += listed_recipe(recipe);
  return text;
}

constexpr const char* kExitCodes =
    "\nExit codes: 0 done; 1 failed; 2 the user can put it right; 3 stopped by SIGINT or SIGTERM, "
    "saved:\nrun the same command again to go on; 4 a machine was lost.";

/// The flags that both commands have.
void add_common_flags(CLI::App& command, TrainFlags& flags) {
  add_device_flags(command, flags.where);
  add_machine_flags(command, flags.machines);
  command
      .add_option("--on-device-failure", flags.on_device_failure,
                  "replay: when a device is lost or out of memory, the others take the step again, "
                  "with the same result; of several machines, when one is lost, too, and no step "
                  "is repeated. Slots are copied after each step for it. stop: end")
      ->check(CLI::IsMember({"replay", "stop"}));
  command.add_option("--log", flags.log, "text, or json: one line of JSON a report")
      ->check(CLI::IsMember({"text", "json"}));
  command.add_flag("--quiet", flags.quiet, "print problems and the last line only");
  command.add_flag("--dry-run", flags.dry_run,
                   "read the recipe and the data, make the model, say what would be trained, and "
                   "write nothing");
  command.add_option("--trace", flags.trace,
                     "write a timeline to this file, for chrome://tracing or Perfetto");
  command.add_flag("--placement-report", flags.placement_report,
                   "say at the end where everything ran");
  command.add_flag("--print-recipe", flags.print_recipe,
                   "print the recipe with every field, and do not train");
}

}  // namespace

void add_train(CLI::App& app, const Environment& environment, Run& run) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app.add_subcommand("train", "Trains a recipe; goes on where it stopped.");
  add_recipe_flags(*command, *flags);
  command
      ->add_option("--shards", flags->shards,
                   "parts of the global batch: what the result depends on, where the number of "
                   "devices does not matter. By default as the recipe says, or the checkpoint has, "
                   "else " +
                       std::to_string(kDefaultShards) + ", and 1 for --strategy async")
      ->check(whole_number(1));
  command->add_option("--run-dir", flags->run_dir,
                      "folder of the run: checkpoints, TensorBoard events, the recipe. By default "
                      "runs/<recipe>");
  command->add_option("--resume", flags->resume,
                      "auto: from the newest whole checkpoint of the run, if there is one. never: "
                      "begin anew. Or the path of a checkpoint or run");
  add_common_flags(*command, *flags);
  command->footer([] {
    return recipes_text() + "\nFields, for --set and for TOML files:\n" + describe_fields() +
           kExitCodes;
  });
  command->callback(
      [flags, environment, &run] { run = [=] { return train(*flags, environment); }; });
}

void add_resume(CLI::App& app, const Environment& environment, Run& run) {
  const auto flags = std::make_shared<TrainFlags>();
  const auto from = std::make_shared<std::string>("newest");
  CLI::App* command =
      app.add_subcommand("resume", "Goes on with a run by its own recipe: lockstep resume RUN.");
  command->add_option("run", flags->run_dir, "the folder of the run, such as runs/fashion")
      ->required();
  command->add_option("--from", *from,
                      "newest, best: the best checkpoint by the recipe's metric, the number of a "
                      "step, or the path of a checkpoint. Checkpoints of later steps are renamed "
                      "to .aside");
  command
      ->add_option("--set", flags->sets,
                   "sets a field of the run's recipe from now on: --set train.epochs=20")
      ->allow_extra_args(false);
  command->add_flag("--next-epoch", flags->next_epoch,
                    "begin at the next epoch, because the data or data.batch has changed");
  add_common_flags(*command, *flags);
  command->footer(kExitCodes + 1);
  command->callback(
      [=, &run] { run = [=] { return train(flags_to_resume(*flags, *from), environment); }; });
}

}  // namespace lockstep::apps
