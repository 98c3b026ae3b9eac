#include "recipe_flags.h"

#include "recipe/fields.h"

namespace lockstep::apps {

std::vector<std::string> RecipeFlags::all_sets() const {
  std::vector<std::string> all = sets;
  if (!strategy.empty()) all.push_back("strategy=" + strategy);
  return all;
}

void add_recipe_flags(CLI::App& command, RecipeFlags& flags) {
  command.add_option("recipe", flags.recipe, "name of a recipe, or path of a TOML file")
      ->required();
  command
      .add_option("--set", flags.sets,
                  "sets a field of the recipe: --set optimizer.lr=0.01 --set train.steps=500")
      ->allow_extra_args(false);
  Recipe defaults;
  const auto fields = sections(defaults);
  command
      .add_option("--strategy", flags.strategy,
                  "how devices share the work: sets the field strategy")
      ->check(CLI::IsMember(std::get<Choice>(find_field(fields, "strategy")->target).words));
}

}  // namespace lockstep::apps
