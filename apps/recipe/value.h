#pragma once

// A value as somebody wrote it, in a file or behind --set, on its way into a field.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "fields.h"

namespace lockstep::apps {

/// Something that no field can be: "a date", "a table".
struct Other {
  std::string what;
};

using Number = std::variant<std::int64_t, double>;
/// An empty list is one of numbers.
using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<Number>,
                           std::vector<std::string>, Other>;

/// Puts `value` into the field's target. Returns what is wrong with it, and then changes nothing;
/// empty: all is well.
std::string assign(const Field& field, const Value& value);

/// `text` as a TOML string, in quotes.
std::string quoted(const std::string& text);

/// The shortest decimal number that reads back as `number`, which is finite.
std::string decimal(double number);

}  // namespace lockstep::apps
