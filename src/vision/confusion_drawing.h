#pragma once

// The picture of a confusion matrix, whatever was confused.

#include <lockstep/image.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::vision {

struct ConfusionWords {
  std::string title, legend, rows, columns;
};

/// A square of counts [row][column], each in percent of its row: the diagonal in blue, the rest in
/// red. `names` are those of rows and columns alike. Numbers are written for at most 20 of them.
Image draw_confusion(const std::vector<std::vector<std::int64_t>>& counts,
                     const std::vector<std::string>& names, const ConfusionWords& words);

}  // namespace lockstep::vision
