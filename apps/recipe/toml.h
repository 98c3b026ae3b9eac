#pragma once

// TOML as entries with places. The parser (toml++, slow to compile) is behind this header only.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "value.h"

namespace lockstep::apps {

struct Entry {
  std::string name;  ///< "optimizer.lr"; keys that need quotes have them
  Value value;
  std::uint32_t line;
  std::uint32_t column;
  bool empty_section = false;  ///< a table without keys: `value` means nothing
};

/// "file:3:1"
std::string place(const std::string& file, std::uint32_t line, std::uint32_t column);

/// The entries of a text, in its order. Throws ConfigError, naming `file`, for a text that is not
/// TOML, or larger than any recipe has to be.
std::vector<Entry> parse_toml(const std::string& text, const std::string& file);

/// One value alone, as it stands behind "key = "; nothing when it is not TOML.
std::optional<Value> parse_value(const std::string& text);

}  // namespace lockstep::apps
