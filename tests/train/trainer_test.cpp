// The loop: limits, schedules, reports, evaluations.

#include <gtest/gtest.h>
#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/tensorboard.h>
#include <lockstep/trainer.h>
#include <lockstep/verify.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "recorder.h"
#include "small_job.h"

namespace lockstep {
namespace trainer_test {

using namespace testing;

TEST(Trainer, EndsAtItsLimitOfStepsEpochsOrSeconds) {
  const auto steps_of = [](TrainerOptions options) {
    const auto job = SmallJob{}.make();
    return Trainer(*job, std::move(options)).run().progress.step;
  };
  EXPECT_EQ(steps_of({.limits = {.steps = 7}}), 7);
  EXPECT_EQ(steps_of({.limits = {.steps = 99, .epochs = 2}}), 18) << "nine batches an epoch";
  auto time = std::make_shared<double>(0);
  EXPECT_EQ(steps_of({.limits = {.seconds = Seconds(5)},
                      .clock = [=] { return Seconds(*time += 0.75); }}),
            7)
      << "the clock is read once a step";
}

TEST(Trainer, EndsWithItsInput) {
  const auto job = SmallJob{.epochs = 1}.make();
  const TrainingEnd end = Trainer(*job, {.limits = {.steps = 100}}).run();
  EXPECT_EQ(end.ending, Ending::input_ended);
  EXPECT_EQ(end.progress.step, 9);
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

TEST(Trainer, ItsScheduleScalesTheRatesOfAllGroups) {
  const auto job = SmallJob{.optimizer = Sgd{.lr = 0.5},
                            .groups = {{"one.*", Sgd{.lr = 0.25}}, {"two.*", Adam{.lr = 0.125}}}}
                       .make();
  std::vector<std::vector<double>> rates;
  const auto note = [&] {
    const Method& method = job->strategy().method();
    rates.push_back({learning_rate(method.optimizer), learning_rate(method.groups[0].optimizer),
                     learning_rate(method.groups[1].optimizer)});
  };
  Recorder recorder;
  recorder.on_step = [&](const TrainingProgress&) { note(); };
  Trainer(*job,
          {.limits = {.steps = 2},
           .schedule = {.shape = Piecewise{.boundaries = {1}, .factors = {1, 0.5}}}},
          {&recorder})
      .run();
  note();
  EXPECT_EQ(rates, (std::vector<std::vector<double>>{
                       {0.5, 0.25, 0.125}, {0.25, 0.125, 0.0625}, {0.5, 0.25, 0.125}}));
}

TEST(Trainer, TheLearningRateIsPutBackHoweverATrainingEnds) {
  const auto job = SmallJob{.optimizer = Sgd{.lr = 0.5}}.make();
  const auto train = [&](std::int64_t fails_at) {
    Recorder recorder;
    recorder.on_step = [&](const TrainingProgress& progress) {
      if (progress.step == fails_at) throw std::runtime_error("an observer");
    };
    const Schedule schedule{.shape = Piecewise{.boundaries = {1}, .factors = {1, 0.1}}};
    Trainer trainer(*job, {.limits = {.steps = 4}, .schedule = schedule}, {&recorder});
    if (fails_at > 0)
      EXPECT_THROW(trainer.run(), std::runtime_error);
    else
      trainer.run();
    return learning_rate(job->strategy().method().optimizer);
  };
  EXPECT_EQ(train(2), 0.5) << "the next Trainer takes this one as its base";
  EXPECT_EQ(train(0), 0.5);
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

TEST(Trainer, APartOfAReportAddsUpToTheWhole) {
  const auto job = SmallJob{.devices = 3}.make();
  Recorder recorder;
  Trainer(*job, {.limits = {.steps = 9}, .report_every = 9}, {&recorder}).run();
  ASSERT_EQ(recorder.reports.size(), 1U);
  const TrainingReport& report = recorder.reports.front();
  double sum = 0, weight = 0;
  std::int64_t rows = 0;
  for (const TowerReport& tower : report.towers) {
    sum += tower.loss * tower.weight;
    weight += tower.weight;
    rows += tower.rows.value();
    Seconds parts{};
    for (const auto& [stage, time] : kStageTimes) parts += tower.*time;
    EXPECT_NEAR(parts.count(), report.time.count(), 1e-9) << tower.device;
  }
  EXPECT_NEAR(sum / weight, report.loss, 1e-9);
  EXPECT_EQ(rows, 104);
  EXPECT_NEAR(report.rows_per_second.value(), 104 / (9 * report.time.count()), 1e-6);
}

/// Batches that do not tell their rows.
struct Opaque {
  torch::Tensor data;
  Opaque shard(int i, int n) const {
    return {data.narrow(0, 8 * i / n, 8 * (i + 1) / n - 8 * i / n)};
  }
};

TEST(Trainer, UnknownRowsAreUnknown) {
  const auto loss = [](Mlp& model, const Opaque& shard) {
    return Loss{model.forward(shard.data).square().sum(), 1};
  };
  const auto source = [](int) { return Opaque{torch::ones({8, 6})}; };
  StrategyJob<Mirrored<Mlp>, Opaque> job(
      std::make_unique<Mirrored<Mlp>>(MirroredOptions{.where = {.devices = cpu_devices(2)}}),
      std::make_unique<detail::BatchBySteps<decltype(source)>>(source, 2), loss);
  Recorder recorder;
  const TrainingEnd end =
      Trainer(job, {.limits = {.steps = 2}, .report_every = 1}, {&recorder}).run();
  ASSERT_EQ(recorder.reports.size(), 2U);
  EXPECT_FALSE(recorder.reports.back().rows_per_second);
  EXPECT_FALSE(recorder.reports.back().towers.front().rows);
  EXPECT_FALSE(end.progress.rows);
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

TEST(Trainer, EvaluatesEverySoManySeconds) {
  const auto job = SmallJob{}.make();
  Recorder recorder;
  double time = 0;  // a step takes a second, all else nothing
  recorder.on_step = [&](const TrainingProgress&) { time += 1; };
  Trainer(*job,
          {.limits = {.steps = 20},
           .evaluate = {.seconds = Seconds(8)},
           .clock = [&] { return Seconds(time); }},
          {&recorder})
      .run();
  std::vector<std::int64_t> steps;
  for (const Evaluation& evaluation : recorder.evaluations) steps.push_back(evaluation.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{9, 18, 20}))
      << "step 9 begins in second 8; the next 8 seconds begin after the evaluation";
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
      job->strategy().with_averaged_weights(evaluate);
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

/// A small job with two pictures of its input, one of which `made` counts.
std::unique_ptr<Job> job_with_pictures(int& made) {
  auto job = SmallJob{}.make();
  auto& own = dynamic_cast<StrategyJob<Mirrored<Mlp>, PointBatch>&>(*job);
  const Image image{.width = 1, .height = 2, .channels = 1, .pixels = {3, 4}};
  own.add_image("batch", [image, &made] {
    ++made;
    return image;
  });
  own.add_image("one", image);
  return job;
}

struct StartImages : Observer {
  void started(const TrainingStart& start) override { images = start.images; }
  std::map<std::string, Image> images;
};

TEST(Trainer, ShowsPicturesOfTheInputWhenItIsNewAndNotAfterAResume) {
  const std::string folder = new_folder("pictures");
  int made = 0;
  const auto job = job_with_pictures(made);
  EXPECT_EQ(made, 0) << "it is made when a training begins";
  StartImages first, second;
  Trainer(*job, {.limits = {.steps = 1}, .folder = folder}, {&first}).run();
  ASSERT_EQ(first.images.size(), 2U);
  EXPECT_EQ(first.images.at("batch").pixels, (std::vector<std::uint8_t>{3, 4}));
  const auto again = job_with_pictures(made);
  Trainer trainer(*again, {.limits = {.steps = 2}, .folder = folder}, {&second});
  trainer.resume({.path = checkpoint_path(folder, 1),
                  .checkpoint = load_checkpoint(checkpoint_path(folder, 1))});
  trainer.run();
  EXPECT_TRUE(second.images.empty());
  EXPECT_EQ(made, 1);
}

TEST(Trainer, TensorBoardHasThePicturesOfTheInput) {
  const std::string folder = new_folder("board");
  int made = 0;
  const auto job = job_with_pictures(made);
  TensorBoard board({.folder = folder});
  Trainer(*job, {.limits = {.steps = 1}}, {&board}).run();
  std::ostringstream bytes;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
  for (const char* tag : {"input/batch", "input/one"})
    EXPECT_NE(bytes.str().find(tag), std::string::npos) << tag;
}

}  // namespace trainer_test
}  // namespace lockstep
