#pragma once

// The numbers of one step: what all towers that meet agree on. Each computes the same.

#include <lockstep/method.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "collective/meeting.h"
#include "optim/slice_update.h"
#include "optim/update_numbers.h"
#include "strategy/tower.h"

namespace lockstep::strategy {

/// What towers have agreed on in a step.
struct Outcome {
  double loss = 0, weight = 0, norm = 0;
  bool applied = false, clipped = false, overflow = false;
  std::vector<char> reached = {};   ///< by parameter: a shard has a gradient for it
  std::vector<char> selected = {};  ///< by parameter: the step was about it
};

/// How a tower adds up terms with all others of the step. They are read until the next call has
/// returned.
struct Adding {
  std::function<double(const collective::SumTerms&)> sum;
  bool first = false;  ///< of the towers
};

/// Weight and loss. False when the loss is not finite, or without weight, and is to be skipped.
bool weigh(const Tower& tower, const Adding& adding, Outcome& outcome);

/// Whether a step with this gradient norm is to be applied, and then whether it is clipped. All
/// towers come to the same answer; to refuse the step, one that has the bad shard throws.
bool accept(Tower& tower, const Adding& adding, const Method& method, Outcome& outcome);

double clip_factor(const Method& method, const Outcome& outcome);

/// Of an update after `updates` others. Views `numbers` and the outcome.
optim::Moment moment_of(const Method& method, std::int64_t updates,
                        const optim::UpdateNumbers& numbers, const Outcome& outcome);

}  // namespace lockstep::strategy
