// Reads recipes: from the program, from files, from --set.

#include <lockstep/error.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

#include "built_in.h"
#include "fields.h"
#include "recipe.h"
#include "rules.h"
#include "toml.h"
#include "value.h"
#include "words.h"

namespace lockstep::apps {
namespace {

/// "key" of "section.key", or "key" itself.
std::string key_of(const std::string& name) { return name.substr(name.rfind('.') + 1); }

bool wants_text(const Field& field) {
  return std::holds_alternative<std::string*>(field.target) ||
         std::holds_alternative<Choice>(field.target);
}

bool wants_list(const Field& field) {
  return std::holds_alternative<std::vector<std::int64_t>*>(field.target) ||
         std::holds_alternative<std::vector<double>*>(field.target);
}

/// What stands behind `--set key=`: TOML, a text without quotes, a list without brackets.
Value set_value(const Field& field, const std::string& text) {
  const bool bare_list = wants_list(field) && text.find('[') == std::string::npos;
  const auto value = parse_value(bare_list ? "[" + text + "]" : text);
  if (value && (!wants_text(field) || std::holds_alternative<std::string>(*value))) return *value;
  if (!parse_value(quoted(text))) return Other{"a text that is too long or is not UTF-8"};
  return text;
}

/// A recipe that is being read, and where each of its fields was set last, by address.
class Reader {
 public:
  void read(const std::string& text, const std::string& file) {
    for (const Entry& entry : parse_toml(text, file)) {
      const std::string at = place(file, entry.line, entry.column);
      if (!entry.empty_section)
        put(at, field_of(at, entry.name), entry.value);
      else if (!section(entry.name))
        throw ConfigError(at + ": " + unknown_section(entry.name));
    }
  }

  /// "key=value"
  void set(const std::string& assignment) {
    const std::string at = "--set " + shown(assignment);
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos)
      throw ConfigError(at + ": there is no '='; write key=value, such as optimizer.lr=0.01");
    const Field& field = field_of(at, assignment.substr(0, equals));
    put(at, field, set_value(field, assignment.substr(equals + 1)));
  }

  /// The recipe, if it keeps the rules over several fields.
  Recipe finish(const std::string& file) const {
    const auto problem = first_problem(recipe_, sections_);
    if (!problem) return recipe_;
    std::string at = file;
    for (auto field = problem->fields.rbegin(); field != problem->fields.rend(); ++field)
      if (const auto known = places_.find(*field); known != places_.end()) at = known->second;
    throw ConfigError(at + ": " + name_of(sections_, problem->fields.front()) + " " +
                      problem->what);
  }

  /// The names of the fields that were set.
  std::set<std::string> stated() const {
    std::set<std::string> names;
    for (const auto& [address, at] : places_) names.insert(name_of(sections_, address));
    return names;
  }

 private:
  const Field& field_of(const std::string& at, const std::string& name) const {
    const Field* field = find_field(sections_, name);
    if (!field) throw ConfigError(at + ": " + unknown_key(name));
    return *field;
  }

  void put(const std::string& at, const Field& field, const Value& value) {
    const std::string problem = assign(field, value);
    if (!problem.empty()) throw ConfigError(at + ": " + field.name + ": " + problem);
    places_[field.address] = at;
  }

  const Section* section(const std::string& name) const {
    for (const Section& candidate : sections_)
      if (candidate.name == name) return &candidate;
    return nullptr;
  }

  std::vector<std::string> section_names() const {
    std::vector<std::string> names;
    for (const Section& candidate : sections_)
      if (!candidate.name.empty()) names.push_back(candidate.name);
    return names;
  }

  std::string unknown_section(const std::string& name) const {
    return "unknown section [" + shown(name) + "]; there are " + listed(section_names()) +
           did_you_mean(name, section_names());
  }

  std::string unknown_key(const std::string& name) const {
    const std::size_t dot = name.find('.');
    if (!name.empty() && section(name))
      return "'" + name + "' is a section: write [" + name + "] and its keys below it";
    const std::string in = dot == std::string::npos ? "" : name.substr(0, dot);
    std::vector<std::string> names;
    std::vector<std::string> own;
    std::string with_that_key;
    for (const Section& candidate : sections_)
      for (const Field& field : candidate.fields) {
        names.push_back(field.name);
        if (candidate.name == in) own.push_back(key_of(field.name));
        if (key_of(field.name) == key_of(name))
          with_that_key = "; did you mean '" + field.name + "'?";
      }
    const std::string near = did_you_mean(name, names);
    return "unknown key '" + shown(name) + "'; " +
           (own.empty()  ? "the sections are " + listed(section_names())
            : in.empty() ? "before the sections there are " + listed(own)
                         : "[" + in + "] has " + listed(own)) +
           (near.empty() ? with_that_key : near);
  }

  Recipe recipe_;
  const std::vector<Section> sections_ = sections(recipe_);
  std::map<const void*, std::string> places_;
};

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
                    const std::vector<std::string>& sets, std::set<std::string>* stated) {
  Reader reader;
  reader.read(text, file);
  for (const std::string& assignment : sets) reader.set(assignment);
  if (stated) *stated = reader.stated();
  return reader.finish(file);
}

Recipe load_recipe(const std::string& name_or_path, const std::vector<std::string>& sets,
                   std::set<std::string>* stated) {
  for (const Embedded& recipe : embedded_recipes())
    if (recipe.name == name_or_path)
      return parse_recipe(recipe.text, name_or_path + " (built in)", sets, stated);
  const auto text = content(name_or_path);
  if (!text) refuse_name(name_or_path);
  return parse_recipe(*text, shown(name_or_path, 1000), sets, stated);
}

std::vector<BuiltIn> built_in_recipes() {
  std::vector<BuiltIn> recipes;
  for (const Embedded& recipe : embedded_recipes()) {
    const std::string text = recipe.text;
    const std::size_t begin = text.find_first_not_of("# ");
    recipes.push_back({recipe.name, text.substr(begin, text.find('\n') - begin)});
  }
  return recipes;
}

}  // namespace lockstep::apps
