#include "vision/yolo_yaml.h"

#include <lockstep/error.h>

#include <optional>
#include <set>

#include "base/yaml_events.h"
#include "vision/box_faults.h"
#include "vision/data_files.h"

namespace lockstep::vision {
namespace {

using base::YamlEvents;

std::int64_t line_of(YamlEvents& yaml) { return static_cast<std::int64_t>(yaml.place().line); }

[[noreturn]] void refuse(YamlEvents& yaml, const std::string& what) {
  throw ConfigError(yaml.path() + ":" + std::to_string(line_of(yaml)) + ": " + what);
}

std::string text_of(YamlEvents& yaml) {
  const std::optional<std::string> text = yaml.scalar();
  if (!text) yaml.fail("UTF-8");
  return *text;
}

bool is_null(YamlEvents& yaml) {
  if (!yaml.is_plain()) return false;
  const std::string text = text_of(yaml);
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

/// A class of "names", and its line.
struct YoloName {
  std::string text;
  std::int64_t line = 0;
};

std::string read_name(YamlEvents& yaml) {
  if (yaml.type() != YAML_SCALAR_EVENT) refuse(yaml, "names: expected a text for each class");
  const std::string name(trimmed(text_of(yaml)));
  if (name.empty()) refuse(yaml, "names: a class without a name");
  return name;
}

/// By number: from a list, or from a mapping of numbers to names.
std::map<std::int64_t, YoloName> read_names(YamlEvents& yaml) {
  std::map<std::int64_t, YoloName> names;
  if (yaml.type() == YAML_SEQUENCE_START_EVENT) {
    while (yaml.next() != YAML_SEQUENCE_END_EVENT)
      names.emplace(static_cast<std::int64_t>(names.size()),
                    YoloName{read_name(yaml), line_of(yaml)});
  } else if (yaml.type() == YAML_MAPPING_START_EVENT) {
    while (yaml.next() != YAML_MAPPING_END_EVENT) {
      const auto number = yaml.type() == YAML_SCALAR_EVENT ? to_whole(text_of(yaml)) : std::nullopt;
      if (!number || *number < 0) refuse(yaml, "names: expected the number of a class, from 0");
      const std::int64_t line = line_of(yaml);
      yaml.next();
      if (!names.emplace(*number, YoloName{read_name(yaml), line}).second)
        refuse(yaml, "names: class " + std::to_string(*number) + " again");
    }
  } else {
    refuse(yaml, "names: expected a list of classes, or a mapping of numbers to names");
  }
  return names;
}

/// In the order of their numbers, which have no holes and no name twice.
std::vector<std::string> in_order(const std::string& path,
                                  const std::map<std::int64_t, YoloName>& names) {
  std::vector<std::string> result;
  std::set<std::string> seen;
  for (const auto& [number, name] : names) {
    const std::string where = path + ":" + std::to_string(name.line) + ": names: ";
    if (number != static_cast<std::int64_t>(result.size()))
      throw ConfigError(where + "class " + std::to_string(number) + " but no class " +
                        std::to_string(result.size()) + "; number them from 0, without holes");
    if (!seen.insert(name.text).second)
      throw ConfigError(where + in_quotes(name.text) + " is the name of two classes");
    result.push_back(name.text);
  }
  return result;
}

void read_entry(YamlEvents& yaml, YoloYaml::Entry& entry) {
  entry = {.texts = {}, .line = line_of(yaml)};
  if (yaml.type() == YAML_SCALAR_EVENT) {
    if (!is_null(yaml)) entry.texts.push_back(text_of(yaml));
  } else if (yaml.type() == YAML_SEQUENCE_START_EVENT) {
    while (yaml.next() != YAML_SEQUENCE_END_EVENT) {
      if (yaml.type() == YAML_SCALAR_EVENT) entry.texts.push_back(text_of(yaml));
      yaml.skip();
    }
  } else {
    yaml.skip();
  }
}

void check_count(const std::string& path, const YoloYaml& yaml) {
  const auto count = yaml.entries.find("nc");
  if (count == yaml.entries.end() || count->second.texts.empty()) return;
  if (to_whole(count->second.texts.front()) != static_cast<std::int64_t>(yaml.names.size()))
    throw ConfigError(path + ":" + std::to_string(count->second.line) +
                      ": nc: " + in_quotes(count->second.texts.front()) + ", but \"names\" has " +
                      std::to_string(yaml.names.size()) + " classes");
}

}  // namespace

YoloYaml parse_yolo_yaml(const std::string& path, std::string_view text) {
  YamlEvents yaml(path, {text.begin(), text.end()});
  YoloYaml result;
  yaml.next();
  if (yaml.next() != YAML_DOCUMENT_START_EVENT || yaml.next() != YAML_MAPPING_START_EVENT)
    refuse(yaml, "expected keys with values: path, train, val, names");
  while (yaml.next() != YAML_MAPPING_END_EVENT) {
    if (yaml.type() != YAML_SCALAR_EVENT) refuse(yaml, "a key that is not a text");
    const std::string key = text_of(yaml);
    yaml.next();
    if (key == "names")
      result.names = in_order(path, read_names(yaml));
    else
      read_entry(yaml, result.entries[key]);
  }
  if (result.names.empty())
    throw ConfigError(path +
                      ": no \"names\" of classes; expected a list, or a mapping of numbers "
                      "to names");
  check_count(path, result);
  return result;
}

}  // namespace lockstep::vision
