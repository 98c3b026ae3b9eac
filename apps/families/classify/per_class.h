#pragma once

// How well each class was recognised, as a table for people.

#include <lockstep/vision/classify.h>

#include <string>
#include <vector>

namespace lockstep::apps {

/// A line for each class, those that were recognised worst first: its images, the share of them
/// that was recognised (recall), and the share of what was taken for it that is (precision).
std::string per_class(const vision::Classification& result,
                      const std::vector<std::string>& classes);

}  // namespace lockstep::apps
