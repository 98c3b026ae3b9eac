#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::vision {

/// What data.yaml says, of what is wanted here.
struct YoloYaml {
  /// A text, or a list of texts; a key without a value, and other values, are left out.
  struct Entry {
    std::vector<std::string> texts;
    std::int64_t line = 0;
  };
  std::vector<std::string> names;        ///< of the classes, by number
  std::map<std::string, Entry> entries;  ///< of the other keys: path, train, val, ...
};

/// Throws ConfigError, with the line, when there are no names or they do not fit; CorruptFile for
/// what is not YAML.
YoloYaml parse_yolo_yaml(const std::string& path, std::string_view text);

}  // namespace lockstep::vision
