#pragma once

// What the trainer's tests watch a training with.

#include <lockstep/checkpoint.h>
#include <lockstep/trainer.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::testing {

/// Keeps all that it is told.
struct Recorder : Observer {
  void started(const TrainingStart& start) override { plan = start.plan; }
  void stepped(const StepReport& step, const TrainingProgress& progress) override {
    losses.push_back(step.loss);
    steps = progress.step;
    if (on_step) on_step(progress);
  }
  void reported(const TrainingReport& report) override { reports.push_back(report); }
  void evaluating(const std::string&, std::int64_t batches, std::int64_t) override {
    if (on_batch) on_batch(batches);
  }
  void evaluated(const Evaluation& evaluation) override { evaluations.push_back(evaluation); }
  void saved(const SaveReport& report) override { saves.push_back(report); }
  void ended(const TrainingEnd& end) override { ending = end.ending; }

  std::function<void(const TrainingProgress&)> on_step;
  std::function<void(std::int64_t)> on_batch;
  std::vector<std::string> plan;
  std::vector<double> losses;
  std::int64_t steps = 0;
  std::vector<TrainingReport> reports;
  std::vector<Evaluation> evaluations;
  std::vector<SaveReport> saves;
  std::optional<Ending> ending;
};

inline State without_gradients(State state) {
  state.gradients.clear();
  return state;
}

inline std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const ListedCheckpoint& listed : list_checkpoints(folder))
    steps.push_back(listed.manifest.progress.step);
  return steps;
}

}  // namespace lockstep::testing
