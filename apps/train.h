#pragma once

// A training of the program: what `train` and `resume` do.

#include <optional>
#include <string>

#include "device_flags.h"
#include "environment.h"
#include "machine_flags.h"
#include "recipe_flags.h"

namespace lockstep::apps {

struct TrainFlags : RecipeFlags {
  DeviceFlags where;
  MachineFlags machines;
  std::optional<int> shards;
  std::string run_dir;          ///< empty: runs/<recipe>
  std::string resume = "auto";  ///< or never, or the path of a checkpoint or run
  bool next_epoch = false;      ///< leave out the rest of the epoch that the checkpoint is in
  bool own_recipe = false;      ///< of `resume`: the run's own, so that what it says is wanted
  std::string on_device_failure = "stop";
  std::string log = "text";
  std::string trace;
  bool placement_report = false;
  bool print_recipe = false;
  bool quiet = false;
  bool dry_run = false;
};

/// Trains until a limit or a signal. Returns the exit code.
int train(TrainFlags flags, const Environment& environment);

}  // namespace lockstep::apps
