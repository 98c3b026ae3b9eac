#pragma once

// The figure of `lockstep scaling`.

#include <lockstep/report.h>

#include <string>
#include <vector>

namespace lockstep::apps {

/// One measurement.
struct ScalingPoint {
  int devices = 1;
  double rows_per_second = 0;
  double efficiency = 1;   ///< samples/s over those of one device, a device
  Seconds first_step{};    ///< from nothing to the end of the first step
  std::string limit = {};  ///< what keeps it from being faster
};

struct ScalingCurves {
  std::string title;
  std::vector<ScalingPoint> strong = {};  ///< the global batch stays
  std::vector<ScalingPoint> weak = {};    ///< the batch of a device stays
};

/// Samples/s over devices as SVG, beside the ideal: n times one device.
std::string scaling_svg(const ScalingCurves& curves);

}  // namespace lockstep::apps
