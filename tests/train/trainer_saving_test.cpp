// What a trainer saves, and goes on from.

#include <gtest/gtest.h>
#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/trainer.h>
#include <lockstep/verify.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <latch>
#include <utility>

#include "base/system_call.h"
#include "recorder.h"
#include "small_job.h"

namespace lockstep {
namespace trainer_saving_test {

using namespace testing;

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
    result.first = without_gradients(job->strategy().state());
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

/// What of a report does not measure time or name a device.
auto essence(const TrainingReport& report) {
  return std::tuple(report.progress.step, report.progress.rows, report.steps, report.loss,
                    report.learning_rate, report.gradient_norm, report.clip_rate, report.done);
}

/// The reports of a training of 10 steps in sessions that `interrupt` ends.
auto reports_in_sessions(std::int64_t report_every, int sessions,
                         const std::function<void(std::int64_t step, bool& stop)>& interrupt) {
  const std::string folder = new_folder("reports");
  std::vector<decltype(essence({}))> reports;
  for (int session = 0; session < sessions; ++session) {
    const auto job = SmallJob{.sets = {}}.make();
    bool stop = false;
    Recorder recorder;
    recorder.on_step = [&](const TrainingProgress& now) { interrupt(now.step, stop); };
    Trainer trainer(*job,
                    {.limits = {.steps = 10},
                     .schedule = {.shape = ExponentialDecay{.rate = 0.5, .steps = 3}},
                     .report_every = report_every,
                     .folder = folder,
                     .stop = [&] { return stop; }},
                    {&recorder});
    std::vector<std::string> problems;
    if (const auto found = load_newest(folder, problems)) trainer.resume(*found);
    try {
      trainer.run();
    } catch (const std::runtime_error&) {  // of `interrupt`
    }
    for (const TrainingReport& report : recorder.reports) reports.push_back(essence(report));
  }
  return reports;
}

TEST(Trainer, ReportsAfterAResumeEqualThoseOfATrainingThatNeverStopped) {
  const auto never = [](std::int64_t, bool&) {};
  for (const std::int64_t report_every : {4, 5, 20}) {
    const auto expected = reports_in_sessions(report_every, 1, never);
    for (const std::int64_t at : {3, 4, 5, 8, 9, 10}) {
      const auto stop = [=](std::int64_t step, bool& stopped) { stopped = step == at; };
      const auto fail = [=, failed = false](std::int64_t step, bool&) mutable {
        if (step == at && !std::exchange(failed, true)) throw std::runtime_error("an observer");
      };
      EXPECT_EQ(reports_in_sessions(report_every, 2, stop), expected)
          << "stopped at " << at << ", a report every " << report_every;
      EXPECT_EQ(reports_in_sessions(report_every, 2, fail), expected)
          << "failed at " << at << ", a report every " << report_every;
    }
    EXPECT_EQ(reports_in_sessions(report_every, 3, never), expected) << "started again when done";
  }
}

/// A model with a buffer that safetensors has no type for.
struct Rotation : Mlp {
  Rotation() { register_buffer("rotation", torch::ones({2}, torch::kComplexFloat)); }
};

TEST(Trainer, ATensorThatNoCheckpointCanHoldIsNamedBeforeTheFirstStep) {
  const std::string folder = new_folder("complex") + "/checkpoints";
  const auto job = SmallJob{}.make<Rotation>();
  try {
    Trainer(*job, {.limits = {.steps = 1}, .folder = folder});
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("'rotation' is of type ComplexFloat"), std::string::npos) << text;
    EXPECT_NE(text.find("torch::view_as_real"), std::string::npos) << text;
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_EQ(Trainer(*job, {.limits = {.steps = 1}}).run().progress.step, 1) << "nothing is saved";
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

TEST(Trainer, GoesOnWhileACheckpointIsWritten) {
  const auto job = SmallJob{}.make();
  Recorder recorder;
  std::latch trained_on(1);
  recorder.on_step = [&](const TrainingProgress& progress) {
    if (progress.step == 8) trained_on.count_down();
  };
  const base::ScopedFaults slow([&](const char* call, const std::string& path) {
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
  const base::ScopedFaults faults([&](const char* call, const std::string&) {
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
    EXPECT_NE(std::string(error.what()).find("shards: 4 -> 2"), std::string::npos) << error.what();
  }
}

TEST(Trainer, ACheckpointOfAnotherMethodIsRefusedUnlessTheChangeIsAllowed) {
  const std::string folder = new_folder("method"), path = checkpoint_path(folder, 1);
  const auto job = SmallJob{.optimizer = Sgd{.lr = 0.5}}.make();
  const Schedule decay{.shape = Piecewise{.boundaries = {1}, .factors = {1, 0.1}}};
  Trainer(*job, {.limits = {.steps = 1}, .schedule = decay, .folder = folder}).run();
  const auto same = SmallJob{.devices = 3, .optimizer = Sgd{.lr = 0.5}}.make();
  EXPECT_NO_THROW(Trainer(*same, {}).resume({path, load_checkpoint(path)}))
      << "neither devices nor the schedule's rate are part of it";
  const auto other = SmallJob{.optimizer = Sgd{.lr = 0.25}}.make();
  try {
    Trainer(*other, {}).resume({path, load_checkpoint(path)});
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("optimizer.lr: 0.5 -> 0.25"), std::string::npos)
        << error.what();
  }
  struct Changes : Observer {
    void started(const TrainingStart& start) override { lines = start.changes; }
    std::vector<std::string> lines;
  } told;
  Trainer allowed(*other, {.limits = {.steps = 2}, .changes = {"optimizer.lr"}}, {&told});
  allowed.resume({path, load_checkpoint(path)});
  allowed.run();
  EXPECT_EQ(told.lines, std::vector<std::string>{"optimizer.lr: 0.5 -> 0.25"});
}

TEST(Trainer, ACheckpointFromBeforeMethodsWereKeptIsComparedBySeedAndShards) {
  const std::string folder = new_folder("old-method"), path = checkpoint_path(folder, 1);
  const auto job = SmallJob{}.make(), other = SmallJob{.shards = 2}.make();
  Trainer(*job, {.limits = {.steps = 1}, .folder = folder}).run();
  Checkpoint old = load_checkpoint(path);
  old.manifest.method.clear();
  EXPECT_NO_THROW(Trainer(*job, {}).resume({path, old}));
  EXPECT_THROW(Trainer(*other, {}).resume({path, old}), ConfigError);
  old.manifest.seed = 6;
  EXPECT_THROW(Trainer(*job, {}).resume({path, old}), ConfigError);
}

TEST(Trainer, TheBestCheckpointIsFoundAgain) {
  const std::string folder = new_folder("best");
  for (const auto& [step, loss] : {std::pair{1, 3.0}, {2, 1.0}, {3, 2.0}}) {
    Checkpoint checkpoint{.manifest = {.metrics = {{"test/loss", loss}}}};
    checkpoint.manifest.progress.step = checkpoint.state.steps = step;
    save_checkpoint(checkpoint_path(folder, step), checkpoint);
  }
  std::vector<std::string> problems;
  const Goal low{.metric = "loss", .higher_is_better = false}, high{.metric = "test/loss"};
  EXPECT_EQ(load_best(folder, low, problems)->path, checkpoint_path(folder, 2));
  EXPECT_EQ(load_best(folder, high, problems)->path, checkpoint_path(folder, 1));
  EXPECT_FALSE(load_best(folder, {.metric = "accuracy"}, problems));
  EXPECT_TRUE(problems.empty());
  std::filesystem::remove(checkpoint_path(folder, 2) + "/weights.safetensors");
  EXPECT_EQ(load_best(folder, low, problems)->path, checkpoint_path(folder, 3));
  EXPECT_EQ(problems.size(), 1U);
}

TEST(Trainer, ACheckpointKeepsTheJobsFilesAndAnotherOneIsRefused) {
  const std::string folder = new_folder("files"), path = checkpoint_path(folder, 1);
  const auto job = SmallJob{.vocabulary = "a b"}.make();
  Trainer(*job, {.limits = {.steps = 1}, .folder = folder}).run();
  EXPECT_EQ(load_checkpoint(path).files.at("words"), "a b");
  const auto same = SmallJob{.devices = 2, .vocabulary = "a b"}.make();
  EXPECT_NO_THROW(Trainer(*same, {.limits = {.steps = 2}}).resume({path, load_checkpoint(path)}));
  const auto other = SmallJob{.vocabulary = "a c"}.make();
  EXPECT_THROW(Trainer(*other, {.limits = {.steps = 2}}).resume({path, load_checkpoint(path)}),
               ConfigError);
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

}  // namespace trainer_saving_test
}  // namespace lockstep
