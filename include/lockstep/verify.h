#pragma once

// verify: does the number of devices change the result of *your* model? Trains it on different
// numbers of devices, side by side, and names the first tensor that differs.

#include <lockstep/mirrored.h>

#include <string>
#include <vector>

namespace lockstep {

struct VerifyOptions {
  std::vector<int> counts = {1, 2};  ///< of devices; all are compared with the first
  int steps = 3;
};

struct Verification {
  bool equal = true;
  std::string difference;  ///< empty, or what differs first: step, devices, tensor, element
};

/// The first difference between two states, bit for bit: gradients, then parameters, slots, moving
/// averages, buffers. Empty when there is none.
std::string first_difference(const State& expected, const State& found);

namespace detail {

/// Options for the first `count` devices of `options`.
MirroredOptions options_for(const MirroredOptions& options, int count);

/// Empty, or the difference between two towers after the same step.
std::string compare(const StepReport& expected, const StepReport& found, const MirroredBase& a,
                    const MirroredBase& b);

}  // namespace detail

/// Trains Model(args...) for a few steps on the first 1, 2, ... of where.devices, as
/// `how.counts` says. `source(step)` must return the same batch each time it is asked for a step.
template <class Model, class Source, class LossFn, class... Args>
Verification verify(const MirroredOptions& options, const VerifyOptions& how, const Source& source,
                    const LossFn& loss, const Args&... args) {
  for (std::size_t i = 1; i < how.counts.size(); ++i) {
    Mirrored<Model> reference(detail::options_for(options, how.counts.front()), args...);
    Mirrored<Model> candidate(detail::options_for(options, how.counts[i]), args...);
    for (int step = 0; step < how.steps; ++step) {
      const auto batch = source(step);
      const StepReport expected = reference.step(batch, loss);
      const StepReport found = candidate.step(batch, loss);
      const std::string difference = detail::compare(expected, found, reference, candidate);
      if (!difference.empty())
        return {false, "step " + std::to_string(step) + ", " + std::to_string(how.counts[i]) +
                           " devices against " + std::to_string(how.counts.front()) + ": " +
                           difference};
    }
  }
  return {};
}

}  // namespace lockstep
