// The reader of recipes: any text is a recipe or a ConfigError, and a recipe prints and reads back.

#include <lockstep/error.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "recipe/recipe.h"

namespace {

using namespace lockstep;
using namespace lockstep::apps;

void expect_round_trip(const Recipe& recipe) {
  const std::string text = print_recipe(recipe);
  const Recipe again = parse_recipe(text, "printed");  // a ConfigError here is a find
  if (!differences(recipe, again).empty() || print_recipe(again) != text) std::abort();
}

}  // namespace

/// The first line is what --set gets; the others are the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\n');
  const std::string set = input.substr(0, end);
  const std::string text = end == std::string::npos ? "" : input.substr(end + 1);
  Recipe recipe;
  try {
    recipe = parse_recipe(text, "fuzz.toml", {"train.steps=1", set});
  } catch (const ConfigError&) {
    return 0;
  }
  expect_round_trip(recipe);
  return 0;
}
