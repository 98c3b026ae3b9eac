#pragma once

#include <lockstep/error.h>
#include <yaml.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::base {

struct YamlPlace {
  std::uint64_t line = 0;    ///< from 1
  std::uint64_t offset = 0;  ///< in bytes
};

/// The events of a YAML file, one after the other, and where they stand.
class YamlEvents {
 public:
  /// `path` is for errors.
  YamlEvents(std::string path, std::vector<std::uint8_t> bytes);
  ~YamlEvents();
  YamlEvents(const YamlEvents&) = delete;
  YamlEvents& operator=(const YamlEvents&) = delete;

  /// Goes to the next event. Throws CorruptFile where the file is not YAML.
  yaml_event_type_t next();

  yaml_event_type_t type() const { return event_.type; }
  const std::string& path() const { return path_; }
  YamlPlace place();                    ///< of the event
  std::optional<std::string> scalar();  ///< of a scalar: its text; none when it has bad UTF-8
  bool is_plain() const {
    return event_.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
  }             ///< no quotes
  void skip();  ///< goes to the last event of the node that the event begins
  [[noreturn]] void fail(const std::string& expected);  ///< throws CorruptFile with the line

 private:
  [[noreturn]] void fail_to_parse();
  std::uint64_t offset(std::size_t character);

  const std::string path_;
  const std::vector<std::uint8_t> bytes_;
  const std::string_view original_;  ///< bytes_ without a byte order mark
  const std::string text_;           ///< the same with kMark for what is not UTF-8
  yaml_parser_t parser_ = {};
  yaml_event_t event_ = {};
  std::string_view rest_;  ///< of original_, from character_ on
  std::size_t character_ = 0;
};

}  // namespace lockstep::base
