#pragma once

// What `--placement-report` prints: where everything ran.

#include <lockstep/report.h>

#include <string>

#include "environment.h"

namespace lockstep::apps {

/// Every device with its tower and its memory, and every operator that ran on the CPU instead, with
/// count and reason. `report` is that of a step.
std::string placement_report(const StepReport& report, const Environment& environment);

}  // namespace lockstep::apps
