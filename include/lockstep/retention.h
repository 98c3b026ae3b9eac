#pragma once

// Which checkpoints stay. When they are written is another matter: see TrainerOptions::save.

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// A checkpoint stays if any of these wants it.
struct Retention {
  int last = 3;            ///< the newest so many; at least 1
  double every_hours = 0;  ///< the first, then one every so many hours; 0: off
  int best = 1;            ///< the best so many by the goal's metric; 0: off
};

/// What retention knows of a checkpoint.
struct Candidate {
  std::int64_t step = 0;
  std::int64_t time = 0;  ///< when it was written, in seconds
  double score = 0;       ///< larger is better; NaN: it was not evaluated
};

/// Whether each of `candidates` stays. They ascend by step.
std::vector<bool> kept(const Retention& retention, const std::vector<Candidate>& candidates);

/// "the last 3, one every 2 hours, the best 1"
std::string describe(const Retention& retention);

}  // namespace lockstep
