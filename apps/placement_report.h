#pragma once

// What `--placement-report` prints: where everything ran.

#include <lockstep/report.h>

#include <cstddef>
#include <map>
#include <string>

#include "environment.h"

namespace lockstep::apps {

/// Every device with its tower and its memory, and every operator that ran on the CPU instead, with
/// count and reason. `towers`: by number.
std::string placement_report(const std::map<std::ptrdiff_t, TowerReport>& towers,
                             const Environment& environment);

}  // namespace lockstep::apps
