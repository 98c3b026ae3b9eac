#pragma once

// What a recipe becomes: options, and the job that its family makes of it.

#include <lockstep/job.h>
#include <lockstep/mirrored.h>
#include <lockstep/trainer.h>

#include <map>
#include <memory>
#include <string>

#include "recipe/recipe.h"

namespace lockstep::apps {

/// The strategy's options.
MirroredOptions strategy_options(const Recipe& recipe, std::vector<Device> devices);

/// When to report, evaluate, save and end. The folder is the caller's.
TrainerOptions trainer_options(const Recipe& recipe, const Job& job);

/// What a job finds and leaves on disk.
struct JobFiles {
  std::string folder = {};  ///< of the run, for what is made of the data once; empty: nothing stays
  std::map<std::string, std::string> kept = {};  ///< of the checkpoint it goes on from
};

/// Reads the data and makes the model, on every device of `options`.
std::unique_ptr<Job> make_job(const Recipe& recipe, MirroredOptions options,
                              const JobFiles& files = {});

/// The family `classify`: images to classes.
std::unique_ptr<Job> classify_job(const Recipe& recipe, MirroredOptions options);

/// The family `seq2seq`: texts to texts.
std::unique_ptr<Job> seq2seq_job(const Recipe& recipe, MirroredOptions options,
                                 const JobFiles& files);

}  // namespace lockstep::apps
