// Asynchronous trainings in a Trainer: reports, evaluations, checkpoints, phases, failures.

#include <gtest/gtest.h>
#include <lockstep/async.h>
#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/sim.h>
#include <lockstep/tensorboard.h>
#include <lockstep/trainer.h>
#include <lockstep/verify.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "recorder.h"
#include "small_job.h"
#include "train/report_window.h"

namespace lockstep {
namespace async_training_test {

using namespace testing;
namespace fs = std::filesystem;

SmallJob small(int devices, Asynchrony how = {.delay = 3}) {
  return {.devices = devices, .shards = 2, .async = how};
}

std::unique_ptr<Job> async_job(int devices) { return small(devices).make_with<Async<Mlp>>(); }

struct Training {
  State state;
  TrainingProgress progress;
  std::vector<TrainingReport> reports;
};

/// Trains 40 steps in sessions that end at `stops`, each on another number of devices, every second
/// one because an observer throws; with evaluations, and saves that are not at the end of a
/// session.
Training trained(const std::vector<std::int64_t>& stops, const std::vector<int>& devices,
                 Precision precision = Precision::float32) {
  const std::string folder = new_folder("async");
  Training run;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    SmallJob how = small(devices[i]);
    how.precision = precision;
    const auto job = how.make_with<Async<Mlp>>();
    Recorder recorder;
    recorder.on_step = [&](const TrainingProgress& progress) {
      run.progress = progress;
      if (i % 2 == 1 && progress.step == stops[i]) throw std::runtime_error("an observer");
    };
    Trainer trainer(*job,
                    {.limits = {.steps = 40},
                     .schedule = {.shape = Cosine{.steps = 60}, .warm_up = 5},
                     .report_every = 6,
                     .evaluate = {.steps = 7},
                     .averaged = true,
                     .folder = folder,
                     .save = {.steps = 5},
                     .stop = [&] { return recorder.steps >= stops[i]; }},
                    {&recorder});
    std::vector<std::string> problems;
    if (const auto found = load_newest(folder, problems)) trainer.resume(*found);
    try {
      trainer.run();
    } catch (const std::runtime_error&) {  // of the observer
    }
    run.state = without_gradients(job->strategy().state());
    run.reports.insert(run.reports.end(), recorder.reports.begin(), recorder.reports.end());
  }
  return run;
}

/// What of a report depends on nothing but the training.
auto essence(const TrainingReport& report) {
  return std::tuple(report.progress.step, report.steps, report.loss, report.staleness.steps,
                    report.gradient_norm, report.learning_rate);
}

void expect_same(const Training& expected, const Training& found) {
  EXPECT_EQ(first_difference(expected.state, found.state), "");
  EXPECT_EQ(expected.state.older.size(), 3U);
  EXPECT_EQ(expected.progress.input, found.progress.input);
  ASSERT_EQ(expected.reports.size(), found.reports.size());
  for (std::size_t i = 0; i < expected.reports.size(); ++i)
    EXPECT_EQ(essence(expected.reports[i]), essence(found.reports[i])) << i;
}

TEST(AsyncTraining, ResumeOnOtherDevicesEqualsNeverHavingStopped) {
  const Training expected = trained({100}, {1});
  EXPECT_EQ(expected.progress.step, 40);
  expect_same(expected, trained({2, 17, 18, 33, 100}, {2, 1, 3, 4, 2}));
}

TEST(AsyncTraining, ResumeInFloat16HasTheScalesOfTheOlderWeights) {
  const Training expected = trained({10}, {2}, Precision::float16);
  ASSERT_EQ(expected.state.older.size(), 3U);
  EXPECT_NE(expected.state.older.front().loss_scale, expected.state.loss_scale)
      << "else the scales were not tried";
  expect_same(expected, trained({9, 10}, {1, 3}, Precision::float16));
  expect_same(trained({100}, {1}, Precision::float16),
              trained({9, 22, 100}, {1, 3, 2}, Precision::float16));
}

TEST(AsyncTraining, ACheckpointHasAFileForEachOlderVersion) {
  const std::string path = new_folder("older") + "/step-000000005";
  const auto job = async_job(2);
  for (int step = 0; step < 5; ++step) job->step();
  const State written = job->strategy().state();
  save_checkpoint(path, written);
  for (const char* name : {"older-00001-of-00003.safetensors", "older-00003-of-00003.safetensors"})
    EXPECT_TRUE(fs::exists(path + "/" + name)) << name;
  std::map<std::string, torch::Tensor> oldest;
  for (const NamedTensor& tensor : load_tensors(path + "/older-00001-of-00003.safetensors"))
    oldest[tensor.name] = tensor.value;
  EXPECT_EQ(oldest.size(), 9U) << "parameters and buffers under the model's own names";
  for (const NamedTensor& tensor : written.older.front().parameters)
    EXPECT_TRUE(torch::equal(oldest.at(tensor.name), tensor.value)) << tensor.name;

  const Checkpoint read = load_checkpoint(path);
  EXPECT_EQ(read.state.older.size(), 3U);
  const auto other = async_job(3);
  other->strategy().load(read.state);
  EXPECT_EQ(
      first_difference(without_gradients(written), without_gradients(other->strategy().state())),
      "");
  EXPECT_EQ(checksum_of(path).size(), 64U);
  fs::remove(path + "/older-00002-of-00003.safetensors");
  EXPECT_THROW(load_checkpoint(path), IoError);
}

TEST(AsyncTraining, GoesOnFromMirroredAndBackWhenThatIsAskedFor) {
  const std::string folder = new_folder("changed");
  const auto session = [&](Job& job, std::int64_t steps, std::vector<std::string> changes) {
    Trainer trainer(job,
                    {.limits = {.steps = steps}, .folder = folder, .changes = std::move(changes)});
    std::vector<std::string> problems;
    if (const auto found = load_newest(folder, problems)) trainer.resume(*found);
    return trainer.run().progress.step;
  };
  const auto mirrored = [] { return SmallJob{.shards = 2}.make(); };
  const std::vector<std::string> fields = {"async.order", "async.delay"};
  EXPECT_EQ(session(*mirrored(), 6, {}), 6);
  EXPECT_THROW(session(*async_job(2), 12, {}), ConfigError);
  EXPECT_EQ(session(*async_job(2), 12, fields), 12);
  try {
    session(*mirrored(), 18, {});
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("async.delay: 3 -> none"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(session(*mirrored(), 18, fields), 18);
}

TEST(AsyncTraining, EveryBatchOfAnInputThatEndsIsApplied) {
  for (const Order order : {Order::delay, Order::free}) {
    SmallJob how = small(3, {.order = order});
    how.epochs = 1;
    const auto job = how.make_with<Async<Mlp>>();
    const TrainingEnd end = Trainer(*job, {.limits = {.steps = 100}}).run();
    EXPECT_EQ(end.ending, Ending::input_ended);
    EXPECT_EQ(end.progress.step, 9);
    EXPECT_EQ(end.progress.rows, 104);
  }
}

TEST(AsyncTraining, InFreeOrderTrainsAndResumes) {
  const std::string folder = new_folder("free");
  for (const std::int64_t steps : {20, 45}) {
    const auto job = small(3, {.order = Order::free, .staleness = 4}).make_with<Async<Mlp>>();
    Recorder recorder;
    Trainer trainer(*job, {.limits = {.steps = steps}, .report_every = 5, .folder = folder},
                    {&recorder});
    std::vector<std::string> problems;
    if (const auto found = load_newest(folder, problems)) trainer.resume(*found);
    EXPECT_EQ(trainer.run().progress.step, steps);
    EXPECT_TRUE(std::isfinite(recorder.reports.back().loss));
    EXPECT_LE(recorder.reports.back().staleness.most(), 4);
    EXPECT_EQ(recorder.plan.front(), "applies gradients as they come, at most 4 updates late");
  }
}

TEST(AsyncTraining, AReportSaysHowLateGradientsWereAndAddsUp) {
  const auto job = async_job(3);
  Recorder recorder;
  const std::string folder = new_folder("board");
  TensorBoard board({.folder = folder});
  Trainer(*job, {.limits = {.steps = 18}, .report_every = 9}, {&recorder, &board}).run();
  ASSERT_EQ(recorder.reports.size(), 2U);
  EXPECT_EQ(recorder.plan.front(), "applies each gradient 3 updates late");
  const Staleness& first = recorder.reports[0].staleness;
  EXPECT_EQ(first.steps, (std::map<std::int64_t, std::int64_t>{{0, 1}, {1, 1}, {2, 1}, {3, 6}}));
  EXPECT_DOUBLE_EQ(first.mean(), 21.0 / 9);
  EXPECT_EQ(recorder.reports[1].staleness.steps, (std::map<std::int64_t, std::int64_t>{{3, 9}}));
  for (const TrainingReport& report : recorder.reports) {
    double sum = 0, weight = 0;
    std::int64_t rows = 0;
    std::string before;
    for (const TowerReport& tower : report.towers) {
      EXPECT_LT(before, tower.device) << "in the order of the devices";
      before = tower.device;
      EXPECT_EQ(tower.shards, 2);
      sum += tower.loss * tower.weight;
      weight += tower.weight;
      rows += tower.rows.value();
    }
    EXPECT_NEAR(sum / weight, report.loss, 1e-9);
    EXPECT_EQ(rows, 104);
  }
  std::ostringstream bytes;
  for (const auto& entry : fs::directory_iterator(folder))
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
  for (const char* tag : {"train/staleness/mean", "train/staleness/max", "train/loss/cpu:0"})
    EXPECT_NE(bytes.str().find(tag), std::string::npos) << tag;
}

TEST(AsyncTraining, TheTimesOfADeviceAddUpToTheStepOverManySteps) {
  sim::configure({.devices = 3});
  SmallJob how = small(3);
  how.kind = DeviceKind::sim;
  const auto job = how.make_with<Async<Mlp>>();
  Recorder recorder;
  Trainer(*job, {.limits = {.steps = 60}, .report_every = 60}, {&recorder}).run();
  const TrainingReport& report = recorder.reports.front();
  ASSERT_EQ(report.towers.size(), 3U);
  for (const TowerReport& tower : report.towers) {
    Seconds parts{};
    for (const auto& [stage, time] : kStageTimes) parts += tower.*time;
    EXPECT_NEAR(parts / report.time, 1, 0.15) << tower.device;
  }
}

TEST(ReportWindow, TakesStepsThatOneTowerEachComputed) {
  train::ReportWindow window;
  StepWindow kept;
  const auto step = [&](const std::string& device, int shards, double loss, double weight) {
    const TowerReport tower{.device = device,
                            .shards = shards,
                            .rows = static_cast<std::int64_t>(weight),
                            .loss = loss,
                            .weight = weight,
                            .forward = Seconds(3),
                            .wait = Seconds(1)};
    window.add({.loss = loss,
                .weight = weight,
                .rows = static_cast<std::int64_t>(weight),
                .time = Seconds(2),
                .staleness = 1,
                .towers = {tower}},
               0.1, kept);
  };
  step("cpu:1", 2, 1, 10);
  step("cpu:0", 2, 3, 10);
  step("cpu:1", 2, 2, 30);
  step("cpu:0", 0, std::nan(""), 0);
  const TrainingReport report = window.report(kept);
  ASSERT_EQ(report.towers.size(), 2U);
  const TowerReport &one = report.towers[0], &zero = report.towers[1];
  EXPECT_EQ(one.device, "cpu:1");
  EXPECT_DOUBLE_EQ(one.loss, 70.0 / 40);
  EXPECT_EQ(one.rows, 40);
  EXPECT_DOUBLE_EQ(zero.loss, 3);
  EXPECT_EQ(zero.shards, 2) << "a batch of no rows does not take them away";
  for (const TowerReport& tower : report.towers)
    EXPECT_EQ(tower.forward + tower.wait, report.time) << "two of four steps, of 4 seconds each";
  EXPECT_EQ(report.staleness.steps, (std::map<std::int64_t, std::int64_t>{{1, 4}}));
}

TEST(AsyncTraining, MirroredHasNoStaleness) {
  const auto job = SmallJob{}.make();
  Recorder recorder;
  Trainer(*job, {.limits = {.steps = 2}}, {&recorder}).run();
  EXPECT_TRUE(recorder.reports.back().staleness.steps.empty());
}

// Phases.

struct TwoParts : torch::nn::Module {
  TwoParts() {
    one = register_module("one", torch::nn::Linear(6, 8));
    two = register_module("two", torch::nn::Linear(8, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return two(torch::dropout(torch::relu(one(x)), 0.3, is_training()));
  }
  torch::nn::Linear one = nullptr, two = nullptr;
};

using PhasesJob = StrategyJob<Async<TwoParts>, PointBatch>;

torch::Tensor loss_of(TwoParts& model, const PointBatch& shard) {
  return torch::cross_entropy_loss(model.forward(shard.data), shard.target);
}

const auto kBatches = input::batch(input::shuffle(Points{}, 3), 12);

/// Two steps on each batch: on the second part and then on the first. `fails`: as long as it is
/// true, the second throws.
std::unique_ptr<PhasesJob> phases_job(
    int devices, std::shared_ptr<std::atomic<bool>> fails = std::make_shared<std::atomic<bool>>()) {
  const auto second = [fails](TwoParts& model, const PointBatch& shard) {
    if (*fails) throw std::runtime_error("not now");
    return loss_of(model, shard);
  };
  return std::make_unique<PhasesJob>(
      std::make_unique<Async<TwoParts>>(AsyncOptions{
          .method = {.shards = 2,
                     .groups = {{"one.*", Adam{.lr = 1e-2}}, {"two.*", Sgd{.lr = 0.1}}},
                     .async = Asynchrony{.delay = 3}},
          .where = {.devices = cpu_devices(devices)}}),
      input::prefetch(kBatches),
      std::vector<PhasesJob::Phase>{
          {.name = "head", .loss = loss_of, .update = "two.*"},
          {.name = "body", .loss = second, .update = "one.*", .same_batch = true}},
      2 * kBatches.size());
}

/// Trains 21 steps in sessions that end at `stops`.
Training phases_trained(const std::vector<std::int64_t>& stops, const std::vector<int>& devices) {
  const std::string folder = new_folder("phases");
  Training run;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const auto job = phases_job(devices[i]);
    Recorder recorder;
    Trainer trainer(*job,
                    {.limits = {.steps = 21},
                     .report_every = 4,
                     .folder = folder,
                     .stop = [&] { return recorder.steps >= stops[i]; }},
                    {&recorder});
    std::vector<std::string> problems;
    if (const auto found = load_newest(folder, problems)) trainer.resume(*found);
    run.progress = trainer.run().progress;
    run.state = without_gradients(job->strategy().state());
  }
  return run;
}

TEST(AsyncTraining, PhasesThatShareABatchResumeInTheMiddleOfARound) {
  const Training expected = phases_trained({100}, {1});
  EXPECT_EQ(expected.progress.input, (Position{1, 1})) << "21 steps are 10 batches and a half";
  expect_same(expected, phases_trained({5, 6, 13, 100}, {3, 1, 2, 4}));
}

TEST(AsyncTraining, AfterAStepThatThrowsTheSameBatchComesAgain) {
  const auto fails = std::make_shared<std::atomic<bool>>(false);
  const auto job = phases_job(2, fails), other = phases_job(1);
  for (int step = 0; step < 12; ++step) {
    if (step == 5) {
      job->seek(job->position());
      *fails = true;
      const Position before = job->position();
      EXPECT_THROW(job->step(), TowerError);
      EXPECT_EQ(job->position(), before);
      *fails = false;
    }
    const StepReport report = *job->step(), expected = *other->step();
    EXPECT_EQ(report.phase, expected.phase);
    EXPECT_EQ(report.loss, expected.loss) << step;
    EXPECT_EQ(job->position(), other->position()) << step;
  }
  EXPECT_EQ(first_difference(without_gradients(other->strategy().state()),
                             without_gradients(job->strategy().state())),
            "");
}

TEST(AsyncTraining, VerifyComparesNumbersOfDevices) {
  const auto found =
      verify([](int count) { return async_job(count); }, {.counts = {1, 3}, .steps = 6});
  EXPECT_EQ(found.difference, "");
}

}  // namespace async_training_test
}  // namespace lockstep
