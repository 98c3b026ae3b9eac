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

/// How often: whichever is due first; 0 means never.
struct Every {
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  Seconds seconds{};
};

/// When a training ends: at the first limit that is reached; 0 means no limit.
struct Limits {
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  Seconds seconds{};  ///< spent in training, all sessions together
};

/// The step at which a training ends by its limits of steps and epochs; 0: unknown.
/// `steps_per_epoch` is 0 if unknown.
std::int64_t step_limit(const Limits& limits, std::int64_t steps_per_epoch);

/// With several machines: what to do when one of them is gone.
enum class OnMachineFailure {
  go_on,  ///< those who are left load the newest checkpoint and go on, with the same result
  stop,   ///< throw TowerError
};

struct TrainerOptions {
  Limits limits = {};
  Schedule schedule = {};          ///< of the optimizer's learning rate
  std::int64_t report_every = 50;  ///< steps
  Every evaluate = {};             ///< always at the end, if there is a set to evaluate
  bool averaged = false;           ///< evaluate the moving averages instead of the weights
  Goal goal = {};
  std::string folder = {};               ///< for checkpoints; empty: none are saved
  std::shared_ptr<void> lock = nullptr;  ///< of lock_checkpoints(), if it is taken already
  Every save = {};  ///< also at the end, and after an evaluation among the best to keep
  Retention keep = {};
  int weight_files = 1;     ///< spread the weights over this many files
  std::string recipe = {};  ///< kept in checkpoints
  /// Fields of the method that may differ from those of the checkpoint that is resumed.
  std::vector<std::string> changes = {};
  std::function<bool()> stop =
      nullptr;  ///< asked after every step and every batch of an evaluation: true ends the training
  std::function<Seconds()> clock = nullptr;  ///< the strategy's by default
  OnMachineFailure on_machine_failure = OnMachineFailure::go_on;
};

/// With several machines each of them has a Trainer of the same job and options. The first one
/// alone has a folder, and observers if you like; it decides when to evaluate, to save and to end.
/// `stop` may be true on any of them.
///
/// Use from one thread. If a step, the input, an evaluation or an observer throws, the Trainer
/// saves what the steps before have reached and throws the same. A training that diverges is the
/// exception: its last steps would lead there again, so they are not saved, and weights that are
/// not finite are never saved (NonFiniteError). If a checkpoint cannot be written, the observers
/// are told and training continues.
class Trainer {
 public:
  /// Throws ConfigError for options that are not valid, and for a parameter or buffer whose type a
  /// checkpoint cannot hold.
  Trainer(Job& job, TrainerOptions options, std::vector<Observer*> observers = {});
  ~Trainer();

  /// Takes over a checkpoint: weights, slots, input position and all numbers. Before run().
  /// Checkpoints in the folder that do not lead to it (those of later steps; all of them, when it
  /// comes from elsewhere) are renamed to .aside: they no longer count, and are not lost. Throws
  /// ConfigError when it is of another model, or of another method that `changes` does not allow.
  void resume(const FoundCheckpoint& found);

  /// Trains until a limit, the end of the input, early stopping, or `stop`; then saves. Saves are
  /// finished when it returns. Throws ConfigError when the folder has checkpoints and none was
  /// resumed.
  TrainingEnd run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
