// Memory and time of a pipeline, on simulated devices: virtual time, and a limit that is one.

#include <lockstep/job.h>
#include <lockstep/sequential_stages.h>

#include "strategy/on_pipeline.h"

namespace pipeline_time_test {

using namespace on_pipeline;

constexpr int kWidth = 128, kLayers = 8;

/// Layers that are all alike, so that any cut into 2 or 4 is even.
struct Chain : nn::Module {
  Chain() {
    for (int i = 0; i < kLayers; ++i)
      body->push_back(nn::Linear(nn::LinearOptions(kWidth, kWidth).bias(false)));
    register_module("body", body);
  }
  Tensor forward(const Tensor& x) { return body->forward(x); }
  nn::Sequential body;
};

Batch batch_at(int step, int rows) {
  auto random = models::generator(step);
  return {torch::randn({rows, kWidth}, random), torch::randn({rows, kWidth}, random)};
}

LayerStages<Chain, Batch> chain_loss(Cut cut = Cut::measured()) {
  return sequential_stages<Chain, Batch>(
      [](Chain& net) -> nn::Sequential& { return net.body; },
      [](const Batch& b) { return b.first; },
      [](Chain&, const Tensor& out, const Batch& b) { return torch::mse_loss(out, b.second); },
      std::move(cut));
}

Tensor whole_loss(Chain& net, const Batch& b) {
  return torch::mse_loss(net.forward(b.first), b.second);
}

Cut even(int stages) {
  std::vector<std::size_t> first;
  for (int i = 1; i < stages; ++i) first.push_back(static_cast<std::size_t>(i * kLayers / stages));
  return Cut::by_hand(first);
}

MirroredOptions how(int shards, std::vector<Device> devices) {
  return {.method = {.shards = shards, .optimizer = Adam{}}, .where = {.devices = devices}};
}

sim::Options fast_links(int devices) {
  return {.devices = devices,
          .arithmetic_per_second = 1e9,
          .memory_bytes_per_second = 1e15,
          .link_bytes_per_second = 1e12,
          .link_latency = Seconds{0},
          .launch = Seconds{0}};
}

/// Virtual time from the beginning to the end of the pipeline, in the second step.
Seconds time_of_compute(int stages, int shards, const sim::Options& machine, int ahead = 0,
                        const std::shared_ptr<Trace>& trace = nullptr) {
  sim::configure(machine);
  MirroredOptions like = how(shards, {});
  like.where.trace = trace;
  PipelineOptions options = piped(like, sim_devices(stages), stages);
  options.ahead = ahead;
  Pipeline<Chain> towers(options);
  StepReport report;
  for (int step = 0; step < 2; ++step)
    report = towers.step(towers.stage(batch_at(step, 16 * shards)), chain_loss(even(stages)));
  const TowerReport& first = report.towers.front();  // it ends last
  return first.forward + first.backward + first.wait;
}

TEST(PipelineTime, AnEvenCutIsWithin5PercentOfTheIdealEfficiency) {
  for (const int stages : {2, 4})
    for (const int shards : {4, 8, 16}) {
      const double one = time_of_compute(1, shards, fast_links(1)).count();
      const double many = time_of_compute(stages, shards, fast_links(stages)).count();
      const double efficiency = one / (many * stages);
      const double ideal = static_cast<double>(shards) / (shards + stages - 1);
      EXPECT_NEAR(efficiency, ideal, 0.05 * ideal) << stages << " stages, " << shards << " shards";
    }
}

TEST(PipelineTime, CopiesRunBesideWhatStagesCompute) {
  // A copy takes a fifth of a forward, so there and back two fifths of it for each shard.
  sim::Options slow = fast_links(4);
  const double forward = 2.0 * 2 * 16 * kWidth * kWidth / slow.arithmetic_per_second;
  slow.link_latency = Seconds{forward / 5};
  const double ideal = time_of_compute(4, 16, fast_links(4)).count();
  const double waiting = time_of_compute(4, 16, slow).count();
  const double hidden = time_of_compute(4, 16, slow, 1).count();
  EXPECT_GT(waiting, 1.05 * ideal);
  EXPECT_LT(hidden - ideal, 0.5 * (waiting - ideal));
}

TEST(PipelineTime, TheTraceShowsForwardAndBackwardOfEachShardAndWhatIsBetweenThem) {
  const auto trace = std::make_shared<Trace>();
  time_of_compute(4, 8, fast_links(4), 0, trace);
  const std::string json = trace->json();
  for (const char* name : {"\"F 0\"", "\"F 7\"", "\"B 0\"", "\"B 7\"", "\"wait\"", "\"sim:3\""})
    EXPECT_NE(json.find(name), std::string::npos) << name;
}

/// What a training of three steps comes to on devices with so many bytes.
State trained(std::int64_t bytes, int stages, bool recompute = false) {
  sim::configure({.devices = 4, .memory_bytes = bytes});
  const MirroredOptions like = how(8, sim_devices(stages));
  if (stages == 1) {
    Mirrored<Chain> towers(like);
    for (int step = 0; step < 3; ++step) towers.step(batch_at(step, 64), whole_loss);
    return towers.state();
  }
  Pipeline<Chain> towers(piped(like, sim_devices(stages), stages, recompute));
  for (int step = 0; step < 3; ++step) {
    const StepReport report = towers.step(batch_at(step, 64), chain_loss(even(stages)));
    for (const TowerReport& tower : report.towers) EXPECT_LE(tower.peak_bytes, bytes);
  }
  return towers.state();
}

TEST(PipelineMemory, AModelThatDoesNotFitOneDeviceTrainsOnTwoAndFour) {
  const State expected = trained(0, 1);
  constexpr std::int64_t kParameters = kLayers * kWidth * kWidth * 4;
  constexpr std::int64_t kRoom = 5 * kParameters;  // weights, gradients, slots: 6 times that
  EXPECT_THROW(trained(kRoom, 1), c10::OutOfMemoryError);
  EXPECT_EQ(first_difference(expected, trained(kRoom, 2)), "");
  EXPECT_EQ(first_difference(expected, trained(kRoom / 2, 4)), "");
}

/// The most memory that the first stage of four takes for the shards in flight.
std::int64_t peak_of(bool recompute, int rows) {
  sim::configure({.devices = 4});
  Pipeline<Chain> towers(piped(how(8, {}), sim_devices(4), 4, recompute));
  for (int step = 0; step < 2; ++step) towers.step(batch_at(step, rows), chain_loss(even(4)));
  return sim::usage(0).peak_bytes;
}

TEST(PipelineMemory, RecomputationTakesLess) {
  EXPECT_LT(peak_of(true, 4096), peak_of(false, 4096));
}

TEST(PipelineMemory, TheReportOfTheFirstStepTellsWhatEachStageHas) {
  sim::configure({.devices = 4});
  Pipeline<Chain> towers(piped(how(8, {}), sim_devices(4), 2));
  const StepReport report = towers.step(batch_at(0, 64), chain_loss());
  std::string notes;
  for (const std::string& note : report.notes) notes += note + "\n";
  for (const char* part : {"measured cut: layers 0-", "stage 1 of 2 on sim:0, sim:2: ",
                           " parameters, ", "shards in flight", "stage 2 of 2 on sim:1, sim:3"})
    EXPECT_NE(notes.find(part), std::string::npos) << part << " in:\n" << notes;
  EXPECT_TRUE(towers.step(batch_at(1, 64), chain_loss()).notes.empty());
}

TEST(PipelineCut, ChoosesTheSmallestLargestShareOfTimeAndMemory) {
  EXPECT_EQ(lockstep::detail::best_cut({{1, 0}, {1, 0}, {1, 0}, {1, 0}}, 2),
            (std::vector<std::size_t>{2}));
  EXPECT_EQ(lockstep::detail::best_cut({{9, 0}, {1, 0}, {1, 0}, {1, 0}}, 2),
            (std::vector<std::size_t>{1}));
  EXPECT_EQ(lockstep::detail::best_cut({{1, 1}, {1, 1}, {1, 1}, {1, 9}}, 2),
            (std::vector<std::size_t>{3}));
  EXPECT_EQ(lockstep::detail::best_cut({{1, 1}, {1, 1}, {1, 1}}, 3),
            (std::vector<std::size_t>{1, 2}));
  EXPECT_THROW(lockstep::detail::best_cut({{1, 1}}, 2), ConfigError);
  EXPECT_THROW(lockstep::detail::check_cut({2, 2}, 4, 3), ConfigError);
  EXPECT_THROW(lockstep::detail::check_cut({4}, 4, 2), ConfigError);
  EXPECT_THROW(lockstep::detail::check_cut({1}, 4, 3), ConfigError);
}

TEST(PipelineCut, AnyCutOfASequentialComesToTheBitsOfOneDevice) {
  sim::configure({.devices = 4});
  Mirrored<Chain> whole(how(8, cpu_devices(1)));
  for (int step = 0; step < 3; ++step) whole.step(batch_at(step, 32), whole_loss);
  for (const Cut& cut : {Cut::by_hand({1, 2}), Cut::by_hand({5, 7}), Cut::measured()}) {
    Pipeline<Chain> parts(piped(how(8, {}), sim_devices(3), 3));
    for (int step = 0; step < 3; ++step) parts.step(batch_at(step, 32), chain_loss(cut));
    EXPECT_EQ(first_difference(whole.state(), parts.state()), "");
  }
}

/// The batches of batch_at.
struct Numbers : Stream<Batch> {
  std::optional<Batch> next() override {
    if (at == 5) return std::nullopt;
    return batch_at(static_cast<int>(at++), 32);
  }
  Position position() const override { return {0, at}; }
  void seek(const Position& position) override { at = position.at(1); }
  std::int64_t at = 0;
};

TEST(PipelineJob, AJobTrainsAPipelineAsItTrainsMirrored) {
  sim::configure({.devices = 4});
  StrategyJob<Mirrored<Chain>, Batch> whole(
      std::make_unique<Mirrored<Chain>>(how(4, sim_devices(1))), std::make_unique<Numbers>(),
      whole_loss);
  StrategyJob<Pipeline<Chain>, Batch> parts(
      std::make_unique<Pipeline<Chain>>(piped(how(4, {}), sim_devices(2), 2)),
      std::make_unique<Numbers>(), chain_loss());
  while (whole.step()) EXPECT_TRUE(parts.step());
  EXPECT_FALSE(parts.step());
  EXPECT_EQ(whole.strategy().steps(), 5);
  EXPECT_EQ(first_difference(whole.strategy().state(), parts.strategy().state()), "");
}

}  // namespace pipeline_time_test
