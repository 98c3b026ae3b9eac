#pragma once

// Trainer: takes steps until a limit, and meanwhile reports, evaluates and saves. Everything that
// people watch is an Observer.

#include <lockstep/goal.h>
#include <lockstep/observer.h>
#include <lockstep/retention.h>
#include <lockstep/schedule.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class Job;
struct FoundCheckpoint;

/// How often: whichever is due first counts; 0 means never.
struct Every {
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  Seconds seconds{};
};

/// When a training ends: at the first that is reached; 0 means no limit.
struct Limits {
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  Seconds seconds{};  ///< spent in training, all sessions together
};

/// Steps after which a training ends, as far as steps and epochs tell; 0: unknown. An epoch of
/// unknown length has 0 steps.
std::int64_t step_limit(const Limits& limits, std::int64_t steps_per_epoch);

struct TrainerOptions {
  Limits limits = {};
  Schedule schedule = {};          ///< of the optimizer's learning rate
  std::int64_t report_every = 50;  ///< steps
  Every evaluate = {};             ///< and at the end, if there is a set to evaluate
  bool averaged = false;           ///< evaluate the moving averages, not the weights
  Goal goal = {};
  std::string folder = {};               ///< for checkpoints; empty: none are saved
  std::shared_ptr<void> lock = nullptr;  ///< of the folder, if lock_checkpoints() took it before
  Every save = {};  ///< and at the end, and when the best are kept and it is one
  Retention keep = {};
  int weight_files = 1;     ///< weights are spread over so many files
  std::string recipe = {};  ///< kept in checkpoints
  /// Fields of the method that may differ from those of the checkpoint that is resumed.
  std::vector<std::string> changes = {};
  std::function<bool()> stop =
      nullptr;  ///< asked after every step and batch: true ends the training
  std::function<Seconds()> clock = nullptr;  ///< the strategy's by default
};

/// Use from one thread. Throws what a step, the input, an evaluation or an observer throws, after
/// saving what the steps before came to; a checkpoint that cannot be written is told to the
/// observers, and training goes on.
class Trainer {
 public:
  /// Throws ConfigError for options that cannot be, and for a parameter or buffer of a type that
  /// its checkpoints could not hold.
  Trainer(Job& job, TrainerOptions options, std::vector<Observer*> observers = {});
  ~Trainer();

  /// Takes over a checkpoint: weights, slots, input position and all numbers. Before run(). What is
  /// in the folder and does not lead to it (checkpoints of later steps; all of them, when it comes
  /// from elsewhere) is renamed to .aside: it counts no more, and is not lost.
  /// Throws ConfigError when it is of another model, or of another method, and that was not allowed
  /// by `changes`.
  void resume(const FoundCheckpoint& found);

  /// Trains until a limit, the end of the input, early stopping, or `stop`; then saves. What runs
  /// beside is done when it returns. Throws ConfigError when the folder has checkpoints and none
  /// was resumed.
  TrainingEnd run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
