#pragma once

// The checkpoint that a training goes on from, and what may have changed since.

#include <lockstep/checkpoint.h>
#include <lockstep/trainer.h>

#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "train.h"

namespace lockstep::apps {

/// The recipe of a training. Throws ConfigError for a run where a recipe is expected, and says how
/// to go on with it.
Recipe recipe_to_train(const TrainFlags& flags, Reading& reading);

/// What --resume asks for; nothing: the training begins. Throws ConfigError when there are
/// checkpoints and none of them can be used.
std::optional<FoundCheckpoint> checkpoint_to_resume(const TrainFlags& flags);

/// Says on the error stream what will not be as it was. Throws ConfigError for a change that cannot
/// take effect any more.
void tell_changes(const FoundCheckpoint& found, const Recipe& recipe);

/// The fields of the method that are to change: those of --set, or of the run's own recipe. Throws
/// ConfigError for those that changed in the recipe itself.
std::vector<std::string> asked_changes(const FoundCheckpoint& found, const TrainFlags& flags,
                                       const Recipe& recipe, const Method& method);

/// Makes the trainer take over the checkpoint, at the next epoch if the flags say so. Throws
/// ConfigError, with that as a way out when the checkpoint's place in the data does not exist, and
/// with the fields that have changed when it is of another model.
void resume_trainer(Trainer& trainer, FoundCheckpoint& found, const TrainFlags& flags,
                    const Recipe& recipe);

/// The flags of `resume RUN --from FROM`: newest, best, a step or the path of a checkpoint.
TrainFlags flags_to_resume(TrainFlags flags, const std::string& from);

}  // namespace lockstep::apps
