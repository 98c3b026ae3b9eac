// A detector trains the same on any devices, bit for bit: with mining, RMSProp, a moving average,
// uneven shards, pictures without things, and shards and batches without a match.

#include <lockstep/checkpoint.h>

#include "detecting.h"
#include "folder.h"

namespace ssd_equality_test {

using namespace detecting;

constexpr int kSteps = 4;

class SsdEquality : public OnOneThread {
 protected:
  void SetUp() override { sim::configure({.devices = 4}); }
};

/// Four shards of one and two pictures. The first shard of step 1 has no match, step 2 has none.
Pictures pictures(int step) {
  static const auto* const anchors =
      new std::vector(vision::make_anchors(anchor_options(small_ssd())));
  const std::vector<int> things[kSteps] = {
      {2, 0, 1, 3, 0, 1, 2}, {0, 4, 0, 1, 1, 0, 2}, {0, 0, 0, 0, 0, 0, 0}, {1, 1, 0, 2, 3, 1, 0}};
  return random_pictures(*anchors, static_cast<unsigned>(step), things[step]);
}

/// As published, with a rate that shows in a few steps.
MirroredOptions options(const std::vector<Device>& devices, int shards = 4) {
  RmsProp optimizer = tensorflow_rms_prop(0.01, 0.9, 0.9, 1.0);
  optimizer.weight_decay = 4e-5;
  MirroredOptions result{.method = {.shards = shards,
                                    .optimizer = optimizer,
                                    .moving_average = MovingAverage{.decay = 0.9},
                                    .seed = 5},
                         .where = {.devices = devices}};
  for (const std::string& pattern : undecayed(Ssd(small_ssd())))
    result.method.rules.push_back({.pattern = pattern, .weight_decay = 0});
  return result;
}

const Detecting kLoss{.options = {.mining = {.min_negatives = 3}}};

struct Trained {
  State state;
  std::vector<double> losses;
  std::vector<std::map<std::string, double>> metrics;
};

Trained trained(const MirroredOptions& how, const SsdOptions& model = small_ssd()) {
  Mirrored<Ssd> towers(how, model);
  Trained run;
  for (int step = 0; step < kSteps; ++step) {
    const StepResult report = towers.step(pictures(step), kLoss);
    EXPECT_TRUE(report.applied) << step;
    run.losses.push_back(report.loss);
    run.metrics.push_back(report.metrics);
  }
  run.state = towers.state();
  return run;
}

void expect_same(const Trained& expected, const Trained& found, const std::string& what) {
  EXPECT_EQ(expected.losses, found.losses) << what;
  EXPECT_EQ(expected.metrics[0], found.metrics[0]) << what;
  EXPECT_EQ(first_difference(expected.state, found.state), "") << what;
}

TEST_F(SsdEquality, OneToFourCpusTrainTheSameBitForBit) {
  const Trained one = trained(options(cpu_devices(1)));
  for (const double loss : one.losses) EXPECT_GT(loss, 0);
  EXPECT_GT(one.metrics[0].at("positives"), 1);
  for (const int devices : {2, 3, 4})
    expect_same(one, trained(options(cpu_devices(devices))), std::to_string(devices) + " CPUs");
}

TEST_F(SsdEquality, OneThreeAndFourSimulatedDevicesTrainAsTheCpuBitForBit) {
  const Trained cpu = trained(options(cpu_devices(2)));
  for (const std::string devices : {"sim:0", "sim:0-2", "sim:0-3"})
    expect_same(cpu, trained(options(parse_devices(devices))), devices);
}

TEST_F(SsdEquality, SsdLiteOnV1TrainsTheSameBitForBit) {
  const SsdOptions lite = small_ssd(Backbone::mobilenet_v1, true);
  MirroredOptions one = options(cpu_devices(1)), three = options(cpu_devices(3));
  one.method.rules.clear();
  three.method.rules.clear();
  expect_same(trained(one, lite), trained(three, lite), "3 CPUs");
}

TEST_F(SsdEquality, ALostDeviceIsReplayedBitForBit) {
  const Trained expected = trained(options(parse_devices("sim:0-2")));
  sim::configure({.devices = 3});
  std::int64_t operators = 0;
  {
    Mirrored<Ssd> towers(options(parse_devices("sim:0-2")), small_ssd());
    for (int step = 0; step < 2; ++step) towers.step(pictures(step), kLoss);
    operators = sim::usage(1).operators;
  }
  for (const double part : {0.1, 0.45}) {  // in the forward and in the backward pass
    const auto at = static_cast<std::int64_t>(part * static_cast<double>(operators));
    sim::configure({.devices = 3, .faults = {{.device = 1, .step = 1, .at = at}}});
    MirroredOptions how = options(parse_devices("sim:0-2"));
    how.where.on_device_failure = OnDeviceFailure::replay;
    Mirrored<Ssd> towers(how, small_ssd());
    std::size_t left = 0;
    for (int step = 0; step < kSteps; ++step)
      left = towers.step(pictures(step), kLoss).towers.size();
    EXPECT_EQ(left, 2U) << at;
    EXPECT_EQ(first_difference(expected.state, towers.state()), "") << at;
  }
}

/// Losses and gradient norms of the first step of each batch, with batch norm as in evaluation.
std::vector<double> without_batch_statistics(int shards) {
  std::vector<double> values;
  for (int step = 0; step < kSteps; ++step) {
    Mirrored<Ssd> towers(options(cpu_devices(1), shards), small_ssd());
    towers.model().eval();
    const StepResult report = towers.step(pictures(step), kLoss);
    values.insert(values.end(), {report.loss, report.gradient_norm, report.weight});
  }
  return values;
}

TEST_F(SsdEquality, AnyNumberOfShardsIsDividedByTheMatchesOfTheWholeBatch) {
  const std::vector<double> one = without_batch_statistics(1), four = without_batch_statistics(4);
  for (std::size_t i = 0; i < one.size(); ++i)
    // Other kernels and another order of float32 sums.
    EXPECT_NEAR(one[i], four[i], 1e-4 * one[i]) << i;
  EXPECT_GT(one[0], 0);
}

TEST_F(SsdEquality, ABatchWithoutAMatchIsDividedByOne) {
  Mirrored<Ssd> towers(options(cpu_devices(2)), small_ssd());
  const StepResult report = towers.step(pictures(2), kLoss);
  EXPECT_TRUE(report.applied);
  EXPECT_GT(report.loss, 7 * 3 * 0.1);  // 3 negatives in each of 7 pictures, each well above 0.1
  EXPECT_EQ(report.metrics.at("positives"), 0);
  EXPECT_EQ(report.metrics.at("negatives"), 3);
}

TEST_F(SsdEquality, WithoutNegativesABatchWithoutAMatchHasNoLoss) {
  Mirrored<Ssd> towers(options(cpu_devices(2)), small_ssd());
  const StepResult report = towers.step(pictures(2), Detecting{});
  EXPECT_TRUE(report.applied);
  EXPECT_EQ(report.loss, 0);
}

void expect_channels_last(const Ssd& model) {
  for (const auto& item : model.named_parameters())
    EXPECT_TRUE(item->dim() != 4 || item->is_contiguous(torch::MemoryFormat::ChannelsLast))
        << item.key();
  // Kernels that can lie in one way only.
  for (const char* name : {"backbone.features.0.0.weight", "extras.0.1.0.weight"})
    EXPECT_FALSE(model.named_parameters()[name].is_contiguous()) << name;
}

TEST_F(SsdEquality, TheArenaKeepsKernelsChannelsLastAndACheckpointLoadsBack) {
  const tests::Folder folder;
  const std::string path = folder.path("checkpoint");
  const Trained whole = trained(options(cpu_devices(1)));
  {
    Mirrored<Ssd> towers(options(cpu_devices(2)), small_ssd());
    expect_channels_last(towers.model());
    for (int step = 0; step < 2; ++step) towers.step(pictures(step), kLoss);
    expect_channels_last(towers.model());
    save_checkpoint(path, towers.state());
  }
  for (const std::string devices : {"cpu:0-2", "sim:0-1"}) {
    Mirrored<Ssd> towers(options(parse_devices(devices)), small_ssd());
    towers.load(load_checkpoint(path).state);
    expect_channels_last(towers.model());
    for (int step = 2; step < kSteps; ++step) towers.step(pictures(step), kLoss);
    EXPECT_EQ(first_difference(whole.state, towers.state()), "") << devices;
  }
}

}  // namespace ssd_equality_test
