#include "toml.h"

#include <lockstep/error.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "words.h"

// What a table holds is destroyed recursively, so both ways to nest deeply are closed: brackets by
// this limit, and dotted keys, which toml++ 3.3 does not limit, by the length of a line.
#define TOML_MAX_NESTED_VALUES 4
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace lockstep::apps {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::size_t kLongestLine = 4096;

void refuse_oversize(const std::string& text, const std::string& file) {
  if (text.size() > kMostBytes)
    throw ConfigError(file + ": more than " + std::to_string(kMostBytes) +
                      " bytes: this is not a recipe");
  std::uint32_t line = 1;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin > kLongestLine)
      throw ConfigError(place(file, line, 1) + ": a line of more than " +
                        std::to_string(kLongestLine) + " bytes; a list may go over several lines");
    begin = end + 1;
  }
}

/// A key as it is written, with quotes if it needs them.
std::string written(std::string_view key) {
  const bool bare = !key.empty() && std::all_of(key.begin(), key.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '_' || letter == '-';
  });
  return bare ? std::string(key) : quoted(std::string(key));
}

Value list_of(const toml::array& array) {
  std::vector<Number> numbers;
  for (const toml::node& element : array) {
    if (const auto* integer = element.as_integer())
      numbers.emplace_back(integer->get());
    else if (const auto* number = element.as_floating_point())
      numbers.emplace_back(number->get());
    else
      return Other{"a list of something else than numbers"};
  }
  return numbers;
}

Value value_of(const toml::node& node) {
  if (const auto* yes = node.as_boolean()) return yes->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* list = node.as_array()) return list_of(*list);
  return Other{node.is_table() ? "a table" : "a date or a time"};
}

/// Adds what `table` holds, and what the tables in it hold; in those, tables are values.
void flatten(const toml::table& table, const std::string& prefix, std::vector<Entry>& entries) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + written(key.str());
    const toml::table* section = prefix.empty() ? node.as_table() : nullptr;
    if (section && !section->empty()) {
      flatten(*section, name + ".", entries);
    } else {
      const toml::source_position begin = key.source().begin;
      entries.push_back({name, value_of(node), begin.line, begin.column, section != nullptr});
    }
  }
}

}  // namespace

std::string place(const std::string& file, std::uint32_t line, std::uint32_t column) {
  return file + ":" + std::to_string(line) + ":" + std::to_string(column);
}

std::vector<Entry> parse_toml(const std::string& text, const std::string& file) {
  refuse_oversize(text, file);
  std::vector<Entry> entries;
  try {
    flatten(toml::parse(std::string_view(text)), "", entries);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    throw ConfigError(place(file, at.line, at.column) +
                      ": this is not TOML: " + shown(std::string(error.description()), 300));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  return entries;
}

std::optional<Value> parse_value(const std::string& text) {
  if (text.size() > kLongestLine || text.find('\n') != std::string::npos) return std::nullopt;
  try {
    const toml::table table = toml::parse("value = " + text);
    return value_of(table.begin()->second);
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

}  // namespace lockstep::apps
