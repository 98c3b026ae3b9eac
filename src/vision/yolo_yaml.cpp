#include "vision/yolo_yaml.h"

#include <lockstep/error.h>
#include <yaml.h>

#include <algorithm>
#include <new>
#include <set>

#include "base/utf8.h"
#include "vision/box_faults.h"
#include "vision/data_files.h"

namespace lockstep::vision {
namespace {

constexpr int kMostYamlDepth = 64;

/// The events of a YAML file, one after the other.
class YoloEvents {
 public:
  YoloEvents(const std::string& path, std::string_view text) : path_(path), text_(text) {
    if (!yaml_parser_initialize(&parser_)) throw std::bad_alloc();
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    if (text_.starts_with(base::kByteOrderMark)) text_.remove_prefix(base::kByteOrderMark.size());
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text_.data()),
                                 text_.size());
  }
  ~YoloEvents() {
    yaml_event_delete(&event_);
    yaml_parser_delete(&parser_);
  }
  YoloEvents(const YoloEvents&) = delete;
  YoloEvents& operator=(const YoloEvents&) = delete;

  yaml_event_type_t next() {
    yaml_event_delete(&event_);
    if (!yaml_parser_parse(&parser_, &event_)) fail_to_parse();
    return event_.type;
  }

  yaml_event_type_t type() const { return event_.type; }
  std::int64_t line() const { return static_cast<std::int64_t>(event_.start_mark.line) + 1; }

  /// Of a scalar.
  std::string text() const {
    return {reinterpret_cast<const char*>(event_.data.scalar.value), event_.data.scalar.length};
  }
  bool is_null() const {
    return event_.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (text().empty() || text() == "~" || text() == "null" || text() == "Null" ||
            text() == "NULL");
  }

  /// Goes to the last event of the node that the event begins.
  void skip() {
    int depth = 0;
    do {
      if (type() == YAML_SEQUENCE_START_EVENT || type() == YAML_MAPPING_START_EVENT) ++depth;
      if (type() == YAML_SEQUENCE_END_EVENT || type() == YAML_MAPPING_END_EVENT) --depth;
      if (depth > kMostYamlDepth) fail("lists and mappings are nested too deeply");
      if (depth > 0) next();
    } while (depth > 0);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw ConfigError(path_ + ":" + std::to_string(line()) + ": " + what);
  }

 private:
  [[noreturn]] void fail_to_parse() const {
    if (parser_.error == YAML_MEMORY_ERROR) throw std::bad_alloc();
    std::size_t offset = std::min(parser_.problem_offset, text_.size());
    if (parser_.error != YAML_READER_ERROR) {  // the others count characters
      std::string_view rest = text_;
      for (std::size_t i = 0; i < parser_.problem_mark.index && !rest.empty(); ++i)
        base::take_character(rest);
      offset = text_.size() - rest.size();
    }
    const std::string_view before = text_.substr(0, offset);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    throw CorruptFile(path_, offset,
                      "YAML in line " + std::to_string(line) + " (" + parser_.problem + ")");
  }

  const std::string& path_;
  std::string_view text_;
  yaml_parser_t parser_ = {};
  yaml_event_t event_ = {};
};

/// A class of "names", and its line.
struct YoloName {
  std::string text;
  std::int64_t line = 0;
};

std::string read_name(const YoloEvents& yaml) {
  if (yaml.type() != YAML_SCALAR_EVENT) yaml.fail("names: expected a text for each class");
  const std::string name(trimmed(yaml.text()));
  if (name.empty()) yaml.fail("names: a class without a name");
  return name;
}

/// By number: from a list, or from a mapping of numbers to names.
std::map<std::int64_t, YoloName> read_names(YoloEvents& yaml) {
  std::map<std::int64_t, YoloName> names;
  if (yaml.type() == YAML_SEQUENCE_START_EVENT) {
    while (yaml.next() != YAML_SEQUENCE_END_EVENT)
      names.emplace(static_cast<std::int64_t>(names.size()),
                    YoloName{read_name(yaml), yaml.line()});
  } else if (yaml.type() == YAML_MAPPING_START_EVENT) {
    while (yaml.next() != YAML_MAPPING_END_EVENT) {
      const auto number = yaml.type() == YAML_SCALAR_EVENT ? to_whole(yaml.text()) : std::nullopt;
      if (!number || *number < 0) yaml.fail("names: expected the number of a class, from 0");
      const std::int64_t line = yaml.line();
      yaml.next();
      if (!names.emplace(*number, YoloName{read_name(yaml), line}).second)
        yaml.fail("names: class " + std::to_string(*number) + " again");
    }
  } else {
    yaml.fail("names: expected a list of classes, or a mapping of numbers to names");
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

void read_entry(YoloEvents& yaml, YoloYaml::Entry& entry) {
  entry = {.texts = {}, .line = yaml.line()};
  if (yaml.type() == YAML_SCALAR_EVENT) {
    if (!yaml.is_null()) entry.texts.push_back(yaml.text());
  } else if (yaml.type() == YAML_SEQUENCE_START_EVENT) {
    while (yaml.next() != YAML_SEQUENCE_END_EVENT) {
      if (yaml.type() == YAML_SCALAR_EVENT) entry.texts.push_back(yaml.text());
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
  YoloEvents yaml(path, text);
  YoloYaml result;
  yaml.next();
  if (yaml.next() != YAML_DOCUMENT_START_EVENT || yaml.next() != YAML_MAPPING_START_EVENT)
    yaml.fail("expected keys with values: path, train, val, names");
  while (yaml.next() != YAML_MAPPING_END_EVENT) {
    if (yaml.type() != YAML_SCALAR_EVENT) yaml.fail("a key that is not a text");
    const std::string key = yaml.text();
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
