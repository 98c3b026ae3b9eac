// Jobs with steps of several kinds: a GAN that a Trainer trains.

#include <gtest/gtest.h>
#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/sim.h>
#include <lockstep/tensorboard.h>
#include <lockstep/trainer.h>
#include <lockstep/verify.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "recorder.h"
#include "small_job.h"

namespace lockstep {
namespace phases_test {

using namespace testing;
namespace nn = torch::nn;

struct Gan : nn::Module {
  Gan() {
    generator =
        register_module("generator", nn::Sequential(nn::Linear(4, 16), nn::BatchNorm1d(16),
                                                    nn::ReLU(), nn::Linear(16, 6), nn::Tanh()));
    discriminator = register_module(
        "discriminator",
        nn::Sequential(nn::Linear(6, 16), nn::LeakyReLU(), nn::Dropout(0.2), nn::Linear(16, 1)));
  }
  torch::Tensor fake(const torch::Tensor& like) {
    return generator->forward(torch::randn({like.size(0), 4}));
  }
  nn::Sequential generator = nullptr, discriminator = nullptr;
};

Loss judge(Gan& gan, const PointBatch& shard) {
  const auto real = gan.discriminator->forward(shard.data);
  const auto fake = gan.discriminator->forward(gan.fake(shard.data).detach());
  return Loss::mean(torch::softplus(-real).mean() + torch::softplus(fake).mean())
      .metric("real", torch::sigmoid(real).mean());
}

torch::Tensor deceive(Gan& gan, const PointBatch& shard) {
  return torch::softplus(-gan.discriminator->forward(gan.fake(shard.data))).mean();
}

using GanJob = StrategyJob<Mirrored<Gan>, PointBatch>;

std::vector<GanJob::Phase> both() {
  return {{.name = "discriminator", .loss = judge, .update = "discriminator.*"},
          {.name = "generator", .loss = deceive, .update = "generator.*", .same_batch = true}};
}

std::unique_ptr<Mirrored<Gan>> towers_on(std::vector<Device> devices) {
  return std::make_unique<Mirrored<Gan>>(
      MirroredOptions{.method = {.shards = 4,
                                 .groups = {{"generator.*", Adam{.lr = 2e-3}},
                                            {"discriminator.*", Adam{.lr = 1e-3, .beta1 = 0.5}}},
                                 .seed = 3},
                      .where = {.devices = std::move(devices)}});
}

const auto kBatches = input::batch(input::shuffle(Points{}, 3), 12);

std::unique_ptr<GanJob> gan_job(std::vector<Device> devices,
                                std::vector<GanJob::Phase> phases = both()) {
  return std::make_unique<GanJob>(towers_on(std::move(devices)), input::prefetch(kBatches),
                                  std::move(phases), 2 * kBatches.size());
}

std::vector<Device> places(DeviceKind kind, int count) {
  std::vector<Device> all;
  for (int index = 0; index < count; ++index) all.push_back({kind, index});
  return all;
}

TEST(Phases, AreTheStepsOfALoopByHand) {
  const auto job = gan_job(cpu_devices(2));
  for (int step = 0; step < 7; ++step) {
    const StepReport report = *job->step();
    EXPECT_EQ(report.phase, step % 2 == 0 ? "discriminator" : "generator");
    EXPECT_EQ(job->position(), (Position{0, (step + 1) / 2}));
  }
  const auto towers = towers_on(cpu_devices(1));
  for (int batch = 0; batch < 4; ++batch) {
    towers->step(kBatches.at(0, batch), judge, {.update = "discriminator.*"});
    if (batch < 3) towers->step(kBatches.at(0, batch), deceive, {.update = "generator.*"});
  }
  EXPECT_EQ(first_difference(without_gradients(towers->state()),
                             without_gradients(job->strategy().state())),
            "");
}

TEST(Phases, MayTakeSeveralStepsAndBatches) {
  auto phases = both();
  phases[0].steps = 3;
  const auto job = gan_job(cpu_devices(1), phases);
  std::string seen;
  std::vector<std::int64_t> batches;
  for (int step = 0; step < 9; ++step) {
    seen += job->step()->phase[0];
    batches.push_back(job->position()[1]);
  }
  EXPECT_EQ(seen, "dddgdddgd");
  EXPECT_EQ(batches, (std::vector<std::int64_t>{1, 2, 2, 3, 4, 5, 5, 6, 7}));
}

TEST(Phases, MayHaveALossOverTheWholeBatch) {
  auto phases = both();
  phases[1].loss =
      whole_batch([](Gan& gan, const PointBatch& shard) { return gan.fake(shard.data); },
                  [](const torch::Tensor& fakes) { return fakes.mean(0).square().sum(); });
  const auto one = gan_job(cpu_devices(1), phases), two = gan_job(cpu_devices(2), phases);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(one->step()->loss, two->step()->loss);
  EXPECT_EQ(first_difference(one->strategy().state(), two->strategy().state()), "");
}

TEST(Phases, ABatchComesAgainAfterAFailureInAnyPhase) {
  auto fails = std::make_shared<std::atomic<bool>>(false);
  auto phases = both();
  phases[1].loss = [fails](Gan& gan, const PointBatch& shard) {
    if (fails->exchange(false)) throw std::runtime_error("not now");
    return deceive(gan, shard);
  };
  const auto job = gan_job(cpu_devices(1), phases), other = gan_job(cpu_devices(1));
  for (int step = 0; step < 4; ++step) {
    *fails = step == 1;
    if (step == 1) {
      EXPECT_THROW(job->step(), TowerError);
    }
    EXPECT_EQ(job->step()->loss, other->step()->loss);
    EXPECT_EQ(job->position(), other->position());
  }
}

struct Training {
  State state;
  TrainingProgress progress;
  std::vector<TrainingReport> reports;
};

/// Trains 18 steps, more than an epoch, in sessions that end at `stops` on devices of their own.
Training trained(const std::vector<std::int64_t>& stops,
                 const std::vector<std::vector<Device>>& devices,
                 const std::string& folder = new_folder("gan"), Observer* other = nullptr) {
  sim::configure({.devices = 4});
  Training run;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const auto job = gan_job(devices[i]);
    Recorder recorder;
    std::vector<Observer*> observers{&recorder};
    if (other) observers.push_back(other);
    Trainer trainer(*job,
                    {.limits = {.steps = 18},
                     .schedule = {.shape = Cosine{.steps = 40}},
                     .report_every = 4,
                     .folder = folder,
                     .stop = [&] { return recorder.steps >= stops[i]; }},
                    observers);
    std::vector<std::string> problems;
    if (const auto found = load_newest(folder, problems)) trainer.resume(*found);
    run.progress = trainer.run().progress;
    run.state = without_gradients(job->strategy().state());
    run.reports.insert(run.reports.end(), recorder.reports.begin(), recorder.reports.end());
  }
  return run;
}

/// What of a report depends on nothing but the training.
auto essence(const TrainingReport& report) {
  return std::tuple(report.progress.step, report.steps, report.losses, report.metrics,
                    report.gradient_norm, report.learning_rate);
}

void expect_same(const Training& expected, const Training& found) {
  EXPECT_EQ(first_difference(expected.state, found.state), "");
  EXPECT_EQ(expected.progress.input, found.progress.input);
  ASSERT_EQ(expected.reports.size(), found.reports.size());
  for (std::size_t i = 0; i < expected.reports.size(); ++i)
    EXPECT_EQ(essence(expected.reports[i]), essence(found.reports[i])) << i;
}

TEST(Phases, AGanHasTheSameBitsOnAnyDevices) {
  const Training expected = trained({100}, {cpu_devices(1)});
  EXPECT_EQ(expected.progress.step, 18);
  for (const int count : {1, 2, 4})
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::sim})
      expect_same(expected, trained({100}, {places(kind, count)}));
}

TEST(Phases, AGanResumesInTheMiddleOfARound) {
  const Training expected = trained({100}, {cpu_devices(1)});
  expect_same(expected, trained({5, 10, 15, 100}, {cpu_devices(2), cpu_devices(1),
                                                   places(DeviceKind::sim, 3), cpu_devices(4)}));
}

TEST(Phases, ReportsHaveALossForEachPhaseAndNoneForAll) {
  const Training run = trained({100}, {cpu_devices(2)});
  const TrainingReport& report = run.reports.front();
  EXPECT_EQ(report.steps, 4);
  EXPECT_TRUE(std::isnan(report.loss));
  for (const TowerReport& tower : report.towers) EXPECT_TRUE(std::isnan(tower.loss));
  const auto job = gan_job(cpu_devices(1));
  std::vector<StepReport> steps;
  for (int step = 0; step < 4; ++step) {
    job->strategy().set_learning_rate("generator.*", 2e-3 * rate_factor({Cosine{40}}, step));
    job->strategy().set_learning_rate("discriminator.*", 1e-3 * rate_factor({Cosine{40}}, step));
    steps.push_back(*job->step());
  }
  ASSERT_EQ(report.losses.size(), 2U);
  EXPECT_DOUBLE_EQ(report.losses.at("discriminator"), (steps[0].loss + steps[2].loss) / 2);
  EXPECT_DOUBLE_EQ(report.losses.at("generator"), (steps[1].loss + steps[3].loss) / 2);
  ASSERT_EQ(report.metrics.size(), 1U);
  EXPECT_DOUBLE_EQ(report.metrics.at("discriminator/real"),
                   (steps[0].metrics.at("real") + steps[2].metrics.at("real")) / 2);
}

TEST(Phases, TensorBoardHasACurveForEach) {
  const std::string folder = new_folder("curves");
  TensorBoard board({.folder = folder});
  trained({100}, {cpu_devices(1)}, new_folder("gan"), &board);
  std::ostringstream bytes;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
  for (const char* tag :
       {"train/loss/discriminator", "train/loss/generator", "train/discriminator/real"})
    EXPECT_NE(bytes.str().find(tag), std::string::npos) << tag;
  EXPECT_EQ(bytes.str().find("train/loss/cpu:0"), std::string::npos);
}

TEST(TensorBoardTags, ASetThatIsCalledTrainIsNotTheTraining) {
  EXPECT_EQ(tag_of_set("test"), "test");
  EXPECT_EQ(tag_of_set("train"), "train_set");
  EXPECT_EQ(tag_of_set("system"), "system_set");
}

template <class Program>
std::string message_of(const Program& program) {
  try {
    program();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void expect_says(const std::string& message, const std::string& words) {
  EXPECT_NE(message.find(words), std::string::npos) << message;
}

TEST(Phases, ThatCannotBeTakenAreRefused) {
  const auto refusal = [](std::vector<GanJob::Phase> phases) {
    return message_of([&] { gan_job(cpu_devices(1), std::move(phases)); });
  };
  auto phases = both();
  std::swap(phases[0], phases[1]);
  expect_says(refusal(phases), "'generator', must take the next batch");
  phases = both();
  phases[1].name = "discriminator";
  expect_says(refusal(phases), "all of them different");
  phases = both();
  phases[1].steps = 0;
  expect_says(refusal(phases), "'generator' must have at least one step");
  expect_says(refusal(std::vector<GanJob::Phase>{}), "at least one phase");
}

TEST(Phases, APlateauScheduleIsRefused) {
  const auto job = gan_job(cpu_devices(1));
  expect_says(message_of([&] {
                Trainer(*job, {.limits = {.steps = 1}, .schedule = {.shape = Plateau{}}});
              }),
              "plateau");
}

TEST(Phases, ACheckpointOfOtherPhasesIsRefused) {
  const std::string folder = new_folder("gan");
  trained({5}, {cpu_devices(1)}, folder);
  auto phases = both();
  phases[0].steps = 2;
  const auto job = gan_job(cpu_devices(1), phases);
  Trainer trainer(*job, {.limits = {.steps = 18}, .folder = folder});
  std::vector<std::string> problems;
  const auto found = load_newest(folder, problems);
  ASSERT_TRUE(found.has_value());
  expect_says(message_of([&] { trainer.resume(*found); }), "another 'phases.txt'");
}

/// A job without phases whose loss measures.
TEST(Trainer, ReportsWhatALossMeasuresAsAWeightedMean) {
  using MlpJob = StrategyJob<Mirrored<Mlp>, PointBatch>;
  const auto make = [] {
    return std::make_unique<MlpJob>(
        std::make_unique<Mirrored<Mlp>>(MirroredOptions{.where = {.devices = cpu_devices(2)}}),
        input::prefetch(kBatches), [](Mlp& model, const PointBatch& shard) {
          const auto output = model.forward(shard.data);
          return Loss::mean(torch::cross_entropy_loss(output, shard.target))
              .metric("accuracy", (output.argmax(1) == shard.target).sum(),
                      static_cast<double>(shard.data.size(0)));
        });
  };
  Recorder recorder;
  const auto job = make(), by_hand = make();
  Trainer(*job, {.limits = {.steps = 9}, .report_every = 9}, {&recorder}).run();
  double hits = 0, rows = 0;
  for (int step = 0; step < 9; ++step) {
    const StepReport report = *by_hand->step();
    hits += report.metrics.at("accuracy") * report.metric_weights.at("accuracy");
    rows += report.metric_weights.at("accuracy");
  }
  EXPECT_EQ(rows, 104) << "the last batch of the epoch is smaller";
  EXPECT_DOUBLE_EQ(recorder.reports.at(0).metrics.at("accuracy"), hits / rows);
  EXPECT_TRUE(recorder.reports.at(0).losses.empty());
}

}  // namespace phases_test
}  // namespace lockstep
