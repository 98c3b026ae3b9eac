#include <gtest/gtest.h>
#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/trainer.h>
#include <lockstep/verify.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <latch>

#include "io/system_call.h"
#include "small_job.h"

namespace lockstep {
namespace {

using testing::new_folder;
using testing::SmallJob;

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

State without_gradients(State state) {
  state.gradients.clear();
  return state;
}

std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const ListedCheckpoint& listed : list_checkpoints(folder))
    steps.push_back(listed.manifest.progress.step);
  return steps;
}

TEST(Trainer, EndsAtItsLimitOfStepsEpochsOrSeconds) {
  const auto steps_of = [](TrainerOptions options) {
    const auto job = SmallJob{}.make();
    return Trainer(*job, std::move(options)).run().progress.step;
  };
  EXPECT_EQ(steps_of({.limits = {.steps = 7}}), 7);
  EXPECT_EQ(steps_of({.limits = {.steps = 99, .epochs = 2}}), 18) << "nine batches an epoch";
  auto time = std::make_shared<double>(0);
  EXPECT_EQ(steps_of({.limits = {.seconds = Seconds(5)},
                      .clock = [=] { return Seconds(*time += 0.25); }}),
            7)
      << "the clock is read three times a step";
}

TEST(Trainer, EndsWithItsInput) {
  const auto job = SmallJob{.epochs = 1}.make();
  const TrainingEnd end = Trainer(*job, {.limits = {.steps = 100}}).run();
  EXPECT_EQ(end.ending, Ending::input_ended);
  EXPECT_EQ(end.progress.step, 9);
}

/// Trains to `steps` in sessions that end at `stops`, each on another number of devices.
std::pair<State, TrainingProgress> train_in_sessions(const std::vector<std::int64_t>& stops,
                                                     const std::vector<int>& devices) {
  const std::string folder = new_folder("sessions");
  std::pair<State, TrainingProgress> result;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const auto job = SmallJob{.devices = devices[i]}.make();
    TrainingProgress now;
    Recorder recorder;
    recorder.on_step = [&](const TrainingProgress& progress) { now = progress; };
    Trainer trainer(*job,
                    {.limits = {.steps = 100},
                     .schedule = {.shape = Plateau{.factor = 0.5, .patience = 2}, .warm_up = 20},
                     .report_every = 4,
                     .evaluate = {.steps = 15},
                     .goal = {.metric = "accuracy"},
                     .folder = folder,
                     .stop = [&] { return now.step >= stops[i]; }},
                    {&recorder});
    std::vector<std::string> problems;
    if (const auto found = load_newest(folder, problems)) trainer.resume(*found);
    result.second = trainer.run().progress;
    result.first = without_gradients(job->towers().state());
  }
  return result;
}

TEST(Trainer, ResumeOnOtherDevicesEqualsNeverHavingStopped) {
  const auto [expected, at_once] = train_in_sessions({100}, {1});
  const auto [found, resumed] = train_in_sessions({37, 38, 90, 100}, {2, 1, 3, 2});
  EXPECT_EQ(first_difference(expected, found), "");
  EXPECT_EQ(resumed.schedule, at_once.schedule);
  EXPECT_GT(at_once.schedule.decays, 0) << "else the schedule was not tried";
  EXPECT_EQ(resumed.window, at_once.window);
  EXPECT_EQ(resumed.input, at_once.input);
  EXPECT_EQ(resumed.rows, at_once.rows);
  EXPECT_EQ(resumed.best, at_once.best);
  EXPECT_EQ(resumed.stale, at_once.stale);
}

TEST(Trainer, FollowsItsSchedule) {
  const auto job = SmallJob{.optimizer = Sgd{.lr = 0.5}}.make();
  Recorder recorder;
  Trainer(*job,
          {.limits = {.steps = 3},
           .schedule = {.shape = Piecewise{.boundaries = {1, 2}, .factors = {1, 0.5, 0.1}}},
           .report_every = 1},
          {&recorder})
      .run();
  ASSERT_EQ(recorder.reports.size(), 3U);
  EXPECT_DOUBLE_EQ(recorder.reports[0].learning_rate, 0.5);
  EXPECT_DOUBLE_EQ(recorder.reports[1].learning_rate, 0.25);
  EXPECT_DOUBLE_EQ(recorder.reports[2].learning_rate, 0.05);
}

TEST(Trainer, AReportIsTheMeanOverItsStepsByWeight) {
  const auto job = SmallJob{}.make();
  Recorder recorder;
  Trainer(*job, {.limits = {.steps = 9}, .report_every = 9}, {&recorder}).run();
  ASSERT_EQ(recorder.reports.size(), 1U);
  double sum = 0;
  for (std::size_t i = 0; i < 9; ++i) sum += recorder.losses[i] * (i < 8 ? 12 : 8);
  EXPECT_DOUBLE_EQ(recorder.reports.front().loss, sum / 104) << "the last batch has eight rows";
  EXPECT_EQ(recorder.reports.front().progress.rows, 104);
  EXPECT_EQ(recorder.reports.front().towers.size(), 1U);
}

TEST(Trainer, EvaluatesAsOftenAsAskedAndAtTheEnd) {
  const auto steps_of = [](Every every) {
    const auto job = SmallJob{}.make();
    Recorder recorder;
    Trainer(*job, {.limits = {.steps = 20}, .evaluate = every}, {&recorder}).run();
    std::vector<std::int64_t> steps;
    for (const Evaluation& evaluation : recorder.evaluations) steps.push_back(evaluation.step);
    return steps;
  };
  using Steps = std::vector<std::int64_t>;
  EXPECT_EQ(steps_of({.steps = 8}), (Steps{8, 16, 20}));
  EXPECT_EQ(steps_of({.epochs = 1}), (Steps{9, 18, 20}));
  EXPECT_EQ(steps_of({}), (Steps{20}));
}

TEST(Trainer, EvaluatesSeveralSetsAndJudgesByTheGoals) {
  const std::string folder = new_folder("sets");
  const auto job = SmallJob{.sets = {"test", "other"}}.make();
  Recorder recorder;
  Trainer(*job, {.limits = {.steps = 10}, .goal = {.metric = "other/accuracy"}, .folder = folder},
          {&recorder})
      .run();
  ASSERT_EQ(recorder.evaluations.size(), 2U);
  EXPECT_EQ(recorder.evaluations[0].set, "test");
  EXPECT_FALSE(recorder.evaluations[0].best);
  EXPECT_EQ(recorder.evaluations[1].set, "other");
  EXPECT_TRUE(recorder.evaluations[1].best);
  const auto metrics = load_checkpoint(checkpoint_path(folder, 10)).manifest.metrics;
  EXPECT_TRUE(metrics.contains("test/accuracy") && metrics.contains("other/accuracy"));
}

TEST(Trainer, EvaluatesLiveOrAveragedWeights) {
  const auto metrics_of = [](bool averaged) {
    const auto job = SmallJob{}.make();
    Recorder recorder;
    Trainer(*job, {.limits = {.steps = 30}, .averaged = averaged}, {&recorder}).run();
    EXPECT_EQ(recorder.evaluations.back().averaged, averaged);
    double accuracy = 0;
    const auto evaluate = [&] {
      accuracy = job->evaluate(0, [](auto, auto) { return true; })->metrics.at("accuracy");
    };
    if (averaged)
      job->towers().with_averaged_weights(evaluate);
    else
      evaluate();
    return std::pair(recorder.evaluations.back().metrics.at("accuracy"), accuracy);
  };
  for (const bool averaged : {false, true}) {
    const auto [told, computed] = metrics_of(averaged);
    EXPECT_EQ(told, computed);
  }
}

TEST(Trainer, StopsEarlyWithoutANewBest) {
  const auto job = SmallJob{.optimizer = Sgd{.lr = 0}}.make();  // nothing is learned
  Recorder recorder;
  const TrainingEnd end = Trainer(*job,
                                  {.limits = {.steps = 1000},
                                   .evaluate = {.steps = 5},
                                   .goal = {.metric = "test/accuracy", .patience = 3}},
                                  {&recorder})
                              .run();
  EXPECT_EQ(end.ending, Ending::early_stop);
  EXPECT_TRUE(recorder.evaluations.front().best);
  EXPECT_GE(end.progress.stale, 3);
  EXPECT_EQ(end.progress.step, static_cast<std::int64_t>(recorder.evaluations.size()) * 5);
}

TEST(Trainer, AGoalThatNoEvaluationHasIsNamedWithThoseThereAre) {
  const auto job = SmallJob{}.make();
  Trainer trainer(*job, {.limits = {.steps = 1}, .goal = {.metric = "precision"}});
  try {
    trainer.run();
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("test/precision"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("test/accuracy"), std::string::npos);
  }
}

TEST(Trainer, KeepsTheLastAndTheBestCheckpoints) {
  const std::string folder = new_folder("kept");
  const auto job = SmallJob{}.make();
  Recorder recorder;
  Trainer(*job,
          {.limits = {.steps = 40},
           .evaluate = {.steps = 10},
           .goal = {.metric = "accuracy"},
           .folder = folder,
           .save = {.steps = 4},
           .keep = {.last = 2, .best = 1}},
          {&recorder})
      .run();
  const std::vector<std::int64_t> steps = steps_in(folder);
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back(), 40);
  EXPECT_LE(steps.size(), 3U);
  const auto best = std::ranges::max_element(
      recorder.evaluations, {}, [](const Evaluation& e) { return e.metrics.at("accuracy"); });
  EXPECT_TRUE(std::ranges::count(steps, best->step)) << "the best evaluation is kept";
}

TEST(Trainer, SaysItsPlanAtTheStart) {
  const auto job = SmallJob{}.make();
  Recorder recorder;
  Trainer(*job,
          {.limits = {.steps = 1},
           .folder = new_folder("plan"),
           .save = {.steps = 100, .seconds = Seconds(600)},
           .keep = {.last = 2, .every_hours = 3}},
          {&recorder})
      .run();
  std::string plan;
  for (const std::string& line : recorder.plan) plan += line + "\n";
  EXPECT_NE(plan.find("for 1 steps"), std::string::npos);
  EXPECT_NE(plan.find("every 100 steps or 600 s"), std::string::npos);
  EXPECT_NE(plan.find("the last 2, one every 3 hours"), std::string::npos);
}

TEST(Trainer, GoesOnWhileACheckpointIsWritten) {
  const auto job = SmallJob{}.make();
  Recorder recorder;
  std::latch trained_on(1);
  recorder.on_step = [&](const TrainingProgress& progress) {
    if (progress.step == 8) trained_on.count_down();
  };
  const io::ScopedFaults slow([&](const char* call, const std::string& path) {
    // The first checkpoint's manifest waits for step 8.
    if (std::string(call) == "open" && path.find("step-000000002.new/manifest") != path.npos)
      trained_on.wait();
    return 0;
  });
  Trainer(*job, {.limits = {.steps = 12}, .folder = new_folder("beside"), .save = {.steps = 2}},
          {&recorder})
      .run();
  ASSERT_GE(recorder.saves.size(), 2U);
  EXPECT_EQ(recorder.saves.front().step, 2);
  EXPECT_EQ(recorder.saves.front().error, "");
}

TEST(Trainer, AFullDiskIsToldAndTrainingGoesOn) {
  const std::string folder = new_folder("full");
  const auto job = SmallJob{}.make();
  Recorder recorder;
  const auto failed = [&] {
    return std::ranges::find_if(recorder.saves, [](const auto& save) { return save.error != ""; });
  };
  // Full from the end of the first save to the first failure.
  std::atomic<bool> full = false;
  recorder.on_step = [&](const TrainingProgress&) {
    full = !recorder.saves.empty() && failed() == recorder.saves.end();
  };
  const io::ScopedFaults faults([&](const char* call, const std::string&) {
    return full && std::string(call) == "write" ? ENOSPC : 0;
  });
  const auto saved_again = [&] {
    return failed() != recorder.saves.end() && recorder.saves.back().error.empty();
  };
  const TrainingEnd end = Trainer(*job,
                                  {.limits = {.steps = 100'000},
                                   .folder = folder,
                                   .save = {.steps = 5},
                                   .keep = {.last = 1000},
                                   .stop = saved_again},
                                  {&recorder})
                              .run();
  EXPECT_EQ(end.error, "") << "the last one was saved";
  ASSERT_NE(failed(), recorder.saves.end());
  EXPECT_NE(failed()->error.find("No space left"), std::string::npos) << failed()->error;
  EXPECT_GT(end.progress.step, failed()->step) << "training went on";
  const auto steps = steps_in(folder);
  EXPECT_EQ(steps.front(), recorder.saves.front().step) << "the older one is there";
  EXPECT_EQ(std::ranges::count(steps, failed()->step), 0);
  for (const std::int64_t step : steps) load_checkpoint(checkpoint_path(folder, step));
}

TEST(Trainer, AStopWhileEvaluatingSavesAndTheEvaluationIsMadeUpFor) {
  const std::string folder = new_folder("stopped");
  const auto run = [&](bool stop) {
    const auto job = SmallJob{}.make();
    Recorder recorder;
    bool stopping = false;
    recorder.on_batch = [&](std::int64_t batches) { stopping = stop && batches == 1; };
    Trainer trainer(*job,
                    {.limits = {.steps = 20},
                     .evaluate = {.steps = 10},
                     .folder = folder,
                     .stop = [&] { return stopping; }},
                    {&recorder});
    std::vector<std::string> problems;
    if (const auto found = load_newest(folder, problems)) trainer.resume(*found);
    const TrainingEnd end = trainer.run();
    return std::pair(end, recorder);
  };
  const auto [stopped, before] = run(true);
  EXPECT_EQ(stopped.ending, Ending::stopped);
  EXPECT_EQ(stopped.progress.step, 10);
  EXPECT_TRUE(before.evaluations.empty());
  EXPECT_EQ(steps_in(folder), (std::vector<std::int64_t>{10}));
  const auto [done, after] = run(false);
  EXPECT_EQ(done.ending, Ending::done);
  ASSERT_EQ(after.evaluations.size(), 2U);
  EXPECT_EQ(after.evaluations[0].step, 10);
  EXPECT_EQ(after.evaluations[1].step, 20);
}

TEST(Trainer, ASecondOneInTheSameFolderIsRefused) {
  const std::string folder = new_folder("twice");
  const auto job = SmallJob{}.make(), other = SmallJob{}.make();
  const Trainer first(*job, {.folder = folder});
  EXPECT_THROW(Trainer(*other, {.folder = folder}), ConfigError);
}

TEST(Trainer, ACheckpointOfOtherShardsIsRefusedWithBothNumbers) {
  const std::string folder = new_folder("shards");
  const auto job = SmallJob{}.make(), other = SmallJob{.shards = 2}.make();
  Trainer(*job, {.limits = {.steps = 1}, .folder = folder}).run();
  Trainer trainer(*other, {.limits = {.steps = 2}});
  try {
    trainer.resume({checkpoint_path(folder, 1), load_checkpoint(checkpoint_path(folder, 1))});
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("4 shards"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("in 2:"), std::string::npos);
  }
}

TEST(Trainer, WhatFailsIsThrownAfterTheStepsBeforeItAreSaved) {
  const std::string folder = new_folder("failed");
  const auto job = SmallJob{}.make();
  Recorder recorder;
  recorder.on_step = [](const TrainingProgress& progress) {
    if (progress.step == 7) throw std::runtime_error("an observer");
  };
  Trainer trainer(*job, {.limits = {.steps = 20}, .folder = folder}, {&recorder});
  EXPECT_THROW(trainer.run(), std::runtime_error);
  EXPECT_EQ(steps_in(folder), (std::vector<std::int64_t>{7}));
}

TEST(Trainer, AFolderWithCheckpointsIsNotBegunAnew) {
  const std::string folder = new_folder("anew");
  const auto job = SmallJob{}.make(), other = SmallJob{}.make();
  Trainer(*job, {.limits = {.steps = 5}, .folder = folder}).run();
  Trainer trainer(*other, {.limits = {.steps = 2}, .folder = folder});
  EXPECT_THROW(trainer.run(), ConfigError);
  EXPECT_EQ(steps_in(folder), (std::vector<std::int64_t>{5}));
}

TEST(Trainer, GoingBackToAnOlderCheckpointSetsTheLaterOnesAside) {
  const std::string folder = new_folder("back");
  const auto job = SmallJob{}.make(), other = SmallJob{}.make();
  Trainer(*job,
          {.limits = {.steps = 12}, .folder = folder, .save = {.steps = 4}, .keep = {.last = 9}})
      .run();
  const auto before = steps_in(folder);
  ASSERT_GT(before.size(), 1U);
  const std::string first = checkpoint_path(folder, before.front());
  Trainer trainer(*other, {.limits = {.steps = before.front() + 1}, .folder = folder});
  trainer.resume({first, load_checkpoint(first)});
  trainer.run();
  EXPECT_EQ(steps_in(folder), (std::vector<std::int64_t>{before.front(), before.front() + 1}));
  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(folder, 12) + ".aside")) << "nothing is lost";
}

TEST(Trainer, ARunThatIsDoneDoesNothingWhenStartedAgain) {
  const std::string folder = new_folder("again");
  const auto run = [&] {
    const auto job = SmallJob{}.make();
    Recorder recorder;
    Trainer trainer(*job, {.limits = {.steps = 5}, .folder = folder}, {&recorder});
    std::vector<std::string> problems;
    if (const auto found = load_newest(folder, problems)) trainer.resume(*found);
    trainer.run();
    return std::tuple(recorder.steps, recorder.saves.size(), recorder.evaluations.size());
  };
  EXPECT_EQ(run(), std::tuple(5, 1U, 1U));
  EXPECT_EQ(run(), std::tuple(0, 0U, 0U));
}

}  // namespace
}  // namespace lockstep
