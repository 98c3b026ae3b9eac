#pragma once

#include <lockstep/error.h>
#include <yaml.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/pair_rules.h"

namespace lockstep::text {

/// The events of a YAML file, one after the other, and where they stand.
class YamlEvents {
 public:
  /// Reads the file. Throws IoError or CorruptFile.
  explicit YamlEvents(std::string path);
  ~YamlEvents();
  YamlEvents(const YamlEvents&) = delete;
  YamlEvents& operator=(const YamlEvents&) = delete;

  /// Goes to the next event. Throws CorruptFile where the file is not YAML.
  yaml_event_type_t next();

  yaml_event_type_t type() const { return event_.type; }
  Place place();         ///< of the event; the path in it lives as long as this
  std::string scalar();  ///< of a scalar: its text as written; kNoText when it has bad UTF-8
  void skip();           ///< goes to the last event of the node that the event begins
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

}  // namespace lockstep::text
