#pragma once

// Names of classes and numbers, as tables and pictures show them.

#include <string>
#include <vector>

namespace lockstep::vision {

/// The names; where there are none, numbers from 0. Throws ConfigError unless there is one name a
/// class; `what` is the subject of its message: "a confusion matrix".
std::vector<std::string> names_of_classes(const std::vector<std::string>& classes,
                                          std::size_t count, const std::string& what);

/// UTF-8 of at most `most` letters, and ".." for what was cut off.
std::string shortened(const std::string& name, int most);

/// As printf writes one number.
std::string formatted(const char* format, double value);

}  // namespace lockstep::vision
