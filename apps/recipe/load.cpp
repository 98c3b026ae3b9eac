// Recipes from the program, from files and from checkpoints.

#include <lockstep/error.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "built_in.h"
#include "reader.h"
#include "recipe.h"
#include "words.h"

namespace lockstep::apps {
namespace {

/// The file's content, or a little more than the most that a recipe may have of it; nothing when
/// there is no such file.
std::optional<std::string> content(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  std::string text((1 << 20) + 1, '\0');
  if (file) text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (!file || std::ferror(file.get()) != 0)
    throw ConfigError("cannot read the recipe '" + shown(path, 1000) +
                      "': " + std::strerror(errno));
  return text;
}

[[noreturn]] void refuse_name(const std::string& name) {
  std::vector<std::string> names;
  for (const BuiltIn& recipe : built_in_recipes()) names.push_back(recipe.name);
  throw ConfigError("no recipe '" + shown(name, 1000) +
                    "': there is no such file, and built in are " + listed(names) +
                    did_you_mean(name, names));
}

}  // namespace

Recipe parse_recipe(const std::string& text, const std::string& file,
                    const std::vector<std::string>& sets, Reading* reading) {
  return read_recipe(text, file, sets, /*kept=*/false, reading);
}

Recipe kept_recipe(const std::string& text, const std::string& file,
                   const std::vector<std::string>& sets) {
  return read_recipe(text, file, sets, /*kept=*/true, nullptr);
}

Recipe load_recipe(const std::string& name_or_path, const std::vector<std::string>& sets,
                   Reading* reading) {
  for (const Embedded& recipe : embedded_recipes())
    if (recipe.name == name_or_path)
      return parse_recipe(recipe.text, name_or_path + " (built in)", sets, reading);
  const auto text = content(name_or_path);
  if (!text) refuse_name(name_or_path);
  return parse_recipe(*text, shown(name_or_path, 1000), sets, reading);
}

std::vector<BuiltIn> built_in_recipes() {
  std::vector<BuiltIn> recipes;
  for (const Embedded& recipe : embedded_recipes()) {
    const std::string text = recipe.text;
    const std::size_t begin = text.find_first_not_of("# ");
    recipes.push_back(
        {recipe.name, family_of(text, recipe.name), text.substr(begin, text.find('\n') - begin)});
  }
  return recipes;
}

}  // namespace lockstep::apps
