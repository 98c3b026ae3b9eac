#include "reader.h"

#include <lockstep/error.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "family.h"
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

/// A list of texts behind `--set key=`: TOML, or texts without quotes and brackets: a,b.
Value set_texts(const std::string& text) {
  const auto value = parse_value(text.find('[') == std::string::npos ? "[" + text + "]" : text);
  if (value && !std::holds_alternative<Other>(*value)) {
    const auto* numbers = std::get_if<std::vector<Number>>(&*value);
    if (!numbers || numbers->empty()) return *value;
  }
  if (!parse_value(quoted(text))) return Other{"a text that is too long or is not UTF-8"};
  if (text.find('[') != std::string::npos) return text;
  std::vector<std::string> texts;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts >> std::ws, part, ',');) texts.push_back(part);
  return texts;
}

/// What stands behind `--set key=`: TOML, a text without quotes, a list without brackets.
Value set_value(const Field& field, const std::string& text) {
  if (std::holds_alternative<std::vector<std::string>*>(field.target)) return set_texts(text);
  const bool bare_list = wants_list(field) && text.find('[') == std::string::npos;
  const auto value = parse_value(bare_list ? "[" + text + "]" : text);
  if (value && (!wants_text(field) || std::holds_alternative<std::string>(*value))) return *value;
  if (!parse_value(quoted(text))) return Other{"a text that is too long or is not UTF-8"};
  return text;
}

/// What stands in a file, or behind --set.
struct Assignment {
  std::string at;  ///< its place
  std::string name;
  Value value;       ///< of a file
  std::string text;  ///< behind --set
  bool empty_section = false;
  bool from_file = false;
};

std::vector<Assignment> assignments(const std::string& text, const std::string& file,
                                    const std::vector<std::string>& sets) {
  std::vector<Assignment> all;
  for (const Entry& entry : parse_toml(text, file))
    all.push_back({.at = place(file, entry.line, entry.column),
                   .name = entry.name,
                   .value = entry.value,
                   .text = "",
                   .empty_section = entry.empty_section,
                   .from_file = true});
  for (const std::string& set : sets) {
    const std::string at = "--set " + shown(set);
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos)
      throw ConfigError(at + ": there is no '='; write key=value, such as optimizer.lr=0.01");
    all.push_back({at, set.substr(0, equals), {}, set.substr(equals + 1)});
  }
  return all;
}

/// Puts it into the field. Returns what is wrong with it; empty: all is well.
std::string assign_to(const Field& field, const Assignment& own) {
  return assign(field, own.from_file ? own.value : set_value(field, own.text));
}

[[noreturn]] void refuse(const Assignment& own, const std::string& problem) {
  throw ConfigError(own.at + ": " + problem);
}

/// The family that the last of them names, or the default.
std::string family_of(const std::vector<Assignment>& all) {
  Recipe recipe;
  const auto known = sections(recipe);
  for (const Assignment& own : all) {
    if (own.name != "family" || own.empty_section) continue;
    const std::string problem = assign_to(*find_field(known, "family"), own);
    if (!problem.empty()) refuse(own, "family: " + problem);
  }
  return recipe.family;
}

/// Those families for whose sections `test` is true, as a list of names.
template <class Test>
std::string families_where(const Test& test) {
  std::vector<std::string> names;
  for (const Family& family : families()) {
    Recipe recipe(family.name);
    if (test(sections(recipe))) names.push_back(family.name);
  }
  return listed(names);
}

/// A recipe of a family that is being read, and where each of its fields was set last, by address.
class Reader {
 public:
  /// `kept`: as for kept_recipe.
  Reader(const std::string& family, bool kept) : recipe_(family), kept_(kept) {}

  void read(const Assignment& own) {
    if (own.empty_section) return check_section(own);
    const Field* field = find_field(sections_, own.name);
    if (!field) return read_other(own);
    places_[field->address] = own.at;
    if (own.name == "family") return;  // it is known already
    const std::string problem = assign_to(*field, own);
    if (!problem.empty()) refuse(own, field->name + ": " + problem + elsewhere(own));
  }

  /// The recipe, if it keeps the rules over several fields.
  Recipe finish(const std::string& file) {
    if (recipe_.strategy == StrategyName::async && !places_.contains(&recipe_.shards))
      recipe_.shards = 1;
    check_direction();
    std::optional<Problem> problem = kept_ ? std::nullopt : unread_field(recipe_, sections_);
    if (!problem) problem = first_problem(recipe_, sections_);
    if (!problem) return recipe_;
    std::string at = file;
    for (auto field = problem->fields.rbegin(); field != problem->fields.rend(); ++field)
      if (const auto known = places_.find(*field); known != places_.end()) at = known->second;
    throw ConfigError(at + ": " + name_of(sections_, problem->fields.front()) + " " +
                      problem->what);
  }

  Reading reading(const std::string& file) const {
    Reading found{.notes = notes_};
    for (const auto& [address, at] : places_) found.stated.insert(name_of(sections_, address));
    if (!unread_.empty())
      found.notes.push_back(file + ": the family " + recipe_.family + " does not read " +
                            listed(unread_) +
                            "; there they have their defaults, and can be removed");
    return found;
  }

 private:
  /// A field of other families, one that recipes used to have, or none at all.
  void read_other(const Assignment& own) {
    if (own.name == "evaluate.better") {
      better_ = own;
      return;
    }
    bool unchanged = false;  // it has the default of one of them
    std::string problem;
    const std::string readers = families_where([&](const std::vector<Section>& known) {
      const Field* field = find_field(known, own.name);
      if (!field) return false;
      const std::string unset = text_of(*field);
      problem = assign_to(*field, own);
      unchanged = unchanged || text_of(*field) == unset;
      return true;
    });
    if (readers.empty()) refuse(own, unknown_key(own.name));
    if (kept_ && own.from_file) return;
    if (!problem.empty()) refuse(own, own.name + ": " + problem);
    if (!own.from_file || !unchanged)
      refuse(own, own.name + " is read by the family " + readers + of_this_family());
    const std::string section = own.name.substr(0, own.name.find('.'));
    const std::string name = this->section(section) ? own.name : "[" + section + "]";
    if (std::ranges::find(unread_, name) == unread_.end()) unread_.push_back(name);
  }

  /// evaluate.better said which values of the metric are better, which the metric knows itself.
  void check_direction() {
    if (!better_ || (kept_ && better_->from_file)) return;
    const Metric& metric = metric_of(recipe_);
    const std::string right = metric.higher_is_better ? "higher" : "lower";
    const std::string message = "evaluate.better: remove it; the metric " + metric.name +
                                " knows that " + right + " is better";
    const auto* text = std::get_if<std::string>(&better_->value);
    if (!better_->from_file || !text || *text != right) refuse(*better_, message);
    notes_.push_back(better_->at + ": " + message);
  }

  void check_section(const Assignment& own) const {
    if (section(own.name)) return;
    const std::string readers = families_where([&](const std::vector<Section>& known) {
      return std::ranges::count(known, own.name, &Section::name) > 0;
    });
    if (readers.empty()) refuse(own, unknown_section(own.name));
    if (!kept_)
      refuse(own, "[" + own.name + "] is a section of the family " + readers + of_this_family());
  }

  std::string of_this_family() const {
    return ", and this recipe's family is " + recipe_.family + ": leave it out";
  }

  /// "; the family seq2seq has it", when other families allow the value.
  static std::string elsewhere(const Assignment& own) {
    const std::string allowing = families_where([&](const std::vector<Section>& known) {
      const Field* field = find_field(known, own.name);
      return field && field->of_family && assign_to(*field, own).empty();
    });
    return allowing.empty() ? "" : "; the family " + allowing + " has it";
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
  const bool kept_;
  const std::vector<Section> sections_ = sections(recipe_);
  std::map<const void*, std::string> places_;
  std::optional<Assignment> better_;
  std::vector<std::string> unread_;  // fields and sections of other families
  std::vector<std::string> notes_;
};

}  // namespace

Recipe read_recipe(const std::string& text, const std::string& file,
                   const std::vector<std::string>& sets, bool kept, Reading* reading) {
  const auto all = assignments(text, file, sets);
  Reader reader(family_of(all), kept);
  for (const Assignment& own : all) reader.read(own);
  Recipe recipe = reader.finish(file);
  if (reading) *reading = reader.reading(file);
  return recipe;
}

std::string family_of(const std::string& text, const std::string& file) {
  return family_of(assignments(text, file, {}));
}

}  // namespace lockstep::apps
