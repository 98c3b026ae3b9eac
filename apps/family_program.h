#pragma once

// What a recipe becomes: options, and the job that its family makes of it.

#include <lockstep/job.h>
#include <lockstep/mirrored.h>
#include <lockstep/trainer.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "recipe/recipe.h"

namespace lockstep::apps {

class Service;
struct ServeFlags;

/// The strategy's options.
MirroredOptions strategy_options(const Recipe& recipe, std::vector<Device> devices);

/// When to report, evaluate, save and end. The folder is the caller's.
TrainerOptions trainer_options(const Recipe& recipe, const Job& job);

/// What a job finds and leaves on disk.
struct JobFiles {
  std::string folder = {};  ///< of the run, for what is made of the data once; empty: nothing stays
  std::map<std::string, std::string> kept = {};  ///< of the checkpoint it goes on from
  /// Nothing is trained: only what is evaluated is read, and there are figures for each class.
  bool evaluation = false;
};

/// What a family makes of a recipe, and the commands that only it has.
struct FamilyProgram {
  /// Reads the data and makes the model, on every device of `options`.
  std::function<std::unique_ptr<Job>(const Recipe& recipe, MirroredOptions options,
                                     const JobFiles& files)>
      make_job;
  std::function<void(CLI::App& app, Run& run)> add_commands = [](CLI::App&, Run&) {};
  /// What to put before the names of init.weights, one after the other, if none of them fits as it
  /// is: with "backbone." a classifier's features.0.weight is a detector's.
  std::vector<std::string> weight_prefixes = {};
  /// Fields about what is made once, when a run begins: they cannot change on resume.
  std::vector<std::string> fixed_fields = {};
  /// What `lockstep serve` answers with a model of the family.
  std::function<std::unique_ptr<Service>(const ServeFlags& flags)> make_service = nullptr;
};

/// The job of the recipe's family.
std::unique_ptr<Job> make_job(const Recipe& recipe, MirroredOptions options,
                              const JobFiles& files = {});

/// Of the recipe's family.
std::vector<std::string> weight_prefixes(const Recipe& recipe);
std::vector<std::string> fixed_fields(const Recipe& recipe);
std::unique_ptr<Service> make_service(const Recipe& recipe, const ServeFlags& flags);

/// Rules for optimizer.decay_biases_and_norms = false: no weight decay for what has one dimension.
std::vector<ParameterRule> undecayed(const torch::nn::Module& model);

}  // namespace lockstep::apps
