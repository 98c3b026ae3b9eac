#pragma once

#include <lockstep/optimizer.h>

#include <string>
#include <vector>

namespace lockstep::optim {

/// What an optimizer keeps for each element of a parameter.
struct SlotSpec {
  const char* name;    ///< "exp_avg"
  double initial = 0;  ///< before the first update
};

/// In the order in which the update takes them.
std::vector<SlotSpec> slots_of(const Optimizer& optimizer);

/// "exp_avg, exp_avg_sq", or "none".
std::string names_of(const std::vector<SlotSpec>& slots);

/// Whether what has `own` slots can be updated by an optimizer with `other` ones: they are the
/// first of its own. The rest stays as it is.
bool suffice(const std::vector<SlotSpec>& own, const std::vector<SlotSpec>& other);

}  // namespace lockstep::optim
