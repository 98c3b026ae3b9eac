#pragma once

// Which checkpoints are kept. When they are written: see TrainerOptions::save.

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// A checkpoint is kept if any of these asks for it.
struct Retention {
  int last = 3;            ///< this many of the newest; at least 1
  double every_hours = 0;  ///< also the first, then one every so many hours; 0: off
  int best = 1;            ///< also this many of the best by the goal's metric; 0: off
};

/// What retention knows of a checkpoint.
struct Candidate {
  std::int64_t step = 0;
  std::int64_t time = 0;  ///< when it was written, in seconds
  double score = 0;       ///< larger is better; NaN: it was not evaluated
};

/// Whether each of `candidates` is kept. They ascend by step.
std::vector<bool> kept(const Retention& retention, const std::vector<Candidate>& candidates);

/// "the last 3, one every 2 hours, the best 1"
std::string describe(const Retention& retention);

}  // namespace lockstep
