#pragma once

// Columns of text for people.

#include <string>
#include <vector>

namespace lockstep::apps {

using Rows = std::vector<std::vector<std::string>>;

/// A line for each row, with columns as wide as their widest text. The last column is not filled.
std::string table(const Rows& rows);

}  // namespace lockstep::apps
