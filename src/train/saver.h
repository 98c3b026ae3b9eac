#pragma once

// Saves checkpoints beside the training.

#include <lockstep/checkpoint.h>
#include <lockstep/trainer.h>

#include <future>
#include <string>
#include <vector>

namespace lockstep::train {

struct SaverOptions {
  std::string folder;
  Retention keep = {};
  int weight_files = 1;
  Goal goal = {};  ///< by which the best are kept
};

/// Use from one thread. At most one checkpoint is being written at a time.
class Saver {
 public:
  /// Removes checkpoints that a process that was killed left half written or half removed.
  explicit Saver(SaverOptions options);

  bool busy() const;

  /// Writes a checkpoint, then removes those that need not stay. Waits for the one before.
  void start(Checkpoint checkpoint, Seconds stood_still);

  /// Reports of what has ended since the last call; waits for what is being written if asked to.
  std::vector<SaveReport> ended(bool wait);

  /// Renames the checkpoints of later steps to .aside, so that they count no more.
  void set_aside_after(std::int64_t step) const;

  /// Would a checkpoint with this score be among the best that are kept?
  bool among_best(double score) const;

 private:
  static SaveReport write(const SaverOptions& options, const Checkpoint& checkpoint,
                          Seconds stood_still);
  static void remove_old(const SaverOptions& options, SaveReport& report);
  static bool remove(const std::string& path, SaveReport& report);

  SaverOptions options_;
  std::vector<SaveReport> reports_;
  std::future<SaveReport> writing_;  ///< last: its destructor waits
};

}  // namespace lockstep::train
