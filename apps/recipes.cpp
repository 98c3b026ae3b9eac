// `lockstep recipes`: what can be trained.

#include <iostream>
#include <memory>

#include "commands.h"
#include "exit_codes.h"
#include "recipe/family.h"
#include "recipe/recipe.h"

namespace lockstep::apps {
namespace {

void print_recipes() {
  for (const Family& family : families()) {
    std::cout << family.name << " " << family.about << ":\n";
    for (const BuiltIn& recipe : built_in_recipes())
      if (recipe.family == family.name) std::cout << listed_recipe(recipe);
  }
}

}  // namespace

void add_recipes(CLI::App& app, Run& run) {
  const auto markdown = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("recipes", "Lists the built-in recipes by family.");
  command->add_flag("--markdown", *markdown,
                    "prints the generated part of docs/recipes.md: every recipe and field");
  command->callback([=, &run] {
    run = [=] {
      if (*markdown)
        std::cout << markdown_page();
      else
        print_recipes();
      return kDone;
    };
  });
}

}  // namespace lockstep::apps
