#include "training_observers.h"

#include <lockstep/job.h>

#include <algorithm>
#include <iostream>

#include "console.h"
#include "recipe/recipe.h"

namespace lockstep::apps {
namespace {

LogStyle style_of(const TrainFlags& flags) {
  if (flags.quiet) return LogStyle::quiet;
  return flags.log == "json" ? LogStyle::json : LogStyle::text;
}

TensorBoardOptions board_options(const TrainFlags& flags, const Recipe& recipe, const Job& job) {
  return {.folder = flags.run_dir,
          .histograms_every = recipe.log.histograms_every,
          .text = "```toml\n" + print_recipe(recipe) + "```",
          .hyper_parameters = values_of(recipe),
          .metrics = {"train/loss", tag_of_set(job.sets().front()) + "/" + recipe.evaluate.metric}};
}

}  // namespace

void TrainingObservers::LastTowers::stepped(const StepReport& step, const TrainingProgress&) {
  if (!step.staleness) last.clear();  // all towers are in every step
  for (const TowerReport& tower : step.towers)
    last[std::ranges::find(devices, tower.device) - devices.begin()] = tower;
}

TrainingObservers::TrainingObservers(const TrainFlags& flags, const Recipe& recipe, const Job& job)
    : console_(make_console(style_of(flags))),
      board_(board_options(flags, recipe, job)),
      csv_(flags.run_dir + "/metrics.csv"),
      session_(flags.run_dir),
      pictures_(flags.run_dir + "/pictures"),
      all_{console_.get(), &towers_, &session_} {
  if (recipe.log.tensorboard) all_.push_back(&board_);
  if (recipe.log.csv) all_.push_back(&csv_);
  if (recipe.log.pictures) all_.push_back(&pictures_);
}

void TrainingObservers::tell_problems() const {
  if (const std::string problem = board_.error(); !problem.empty())
    std::cerr << "lockstep: events for TensorBoard are not complete: " << problem << "\n";
  if (const std::string& problem = csv_.error(); !problem.empty())
    std::cerr << "lockstep: metrics.csv is not complete: " << problem << "\n";
  if (const std::string problem = pictures_.error(); !problem.empty())
    std::cerr << "lockstep: pictures are not complete: " << problem << "\n";
  if (const std::string& note = pictures_.note(); !note.empty())
    std::cerr << "note: in pictures/" << note << "\n";
}

}  // namespace lockstep::apps
