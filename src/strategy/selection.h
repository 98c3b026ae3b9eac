#pragma once

// Which parameters a pattern means.

#include <map>
#include <string>
#include <vector>

#include "strategy/flat.h"

namespace lockstep::strategy {

/// By parameter. Throws ConfigError, with `what` in its message, when none matches.
std::vector<char> matching(const std::string& what, const std::string& pattern,
                           const ParameterMap& map);

/// Remembers what patterns mean: they come with every step.
class Selection {
 public:
  /// By parameter: whether it is trained in a step on those that match `update`. Throws ConfigError
  /// when none is.
  std::vector<char> of(const std::string& update, std::vector<char> trainable,
                       const ParameterMap& map);

 private:
  std::map<std::string, std::vector<char>> matches_;  // by pattern: the parameters that it means
};

}  // namespace lockstep::strategy
