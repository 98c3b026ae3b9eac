// The promise on devices with a memory of their own: their number, the buckets, the groups and the
// packs never change the result, bit for bit.

#include "on_sim.h"

namespace sim_equality_test {

using namespace on_sim;

constexpr int kSteps = 6;

class SimEquality : public testing::Test {
 protected:
  void SetUp() override { sim::configure({.devices = 8}); }
};

template <class Model, class Source>
void expect_equal_on_any_number_of_devices(const Source& source) {
  const Trained one = train<Model>(options(sim_devices(1)), source, kSteps);
  EXPECT_NE(one.losses.front(), one.losses.back());
  for (const int devices : {2, 3, 4, 8})
    expect_same(one, train<Model>(options(sim_devices(devices)), source, kSteps),
                std::to_string(devices) + " devices");
}

template <class Model, class Source>
void expect_equal_to_the_cpu(const Source& source) {
  expect_same(train<Model>(options(cpu_devices(1)), source, kSteps),
              train<Model>(options(sim_devices(3)), source, kSteps), "3 simulated devices");
}

TEST_F(SimEquality, AnMlpIsTheSameBitForBitOn1To8Devices) {
  expect_equal_on_any_number_of_devices<models::Mlp>(
      [](int step) { return models::vectors(step); });
}

TEST_F(SimEquality, AConvnetWithBatchNormIsTheSameBitForBitOn1To8Devices) {
  expect_equal_on_any_number_of_devices<models::ConvNet>(
      [](int step) { return models::images(step); });
}

TEST_F(SimEquality, AnLstmWithDropoutAndAttentionIsTheSameBitForBitOn1To8Devices) {
  expect_equal_on_any_number_of_devices<models::Attention>(
      [](int step) { return models::sentences(step); });
}

TEST_F(SimEquality, TiedWeightsAreTheSameBitForBitOn1To8Devices) {
  expect_equal_on_any_number_of_devices<models::Tied>(
      [](int step) { return models::sentences(step); });
}

TEST_F(SimEquality, UnevenAndEmptyShardsAreTheSameBitForBitOn1To8Devices) {
  // 2 to 7 rows in 8 shards: empty ones at the end of a tower's range too.
  expect_equal_on_any_number_of_devices<models::ConvNet>(
      [](int step) { return models::images(step, 2 + step % 9); });
  expect_equal_to_the_cpu<models::ConvNet>(
      [](int step) { return models::images(step, 2 + step % 9); });
}

/// Several blocks of parameters, so that there is something to cut.
struct Wide : torch::nn::Module {
  Wide() {
    first = register_module("first", torch::nn::Linear(12, 700));
    unused = register_module("unused", torch::nn::Linear(70, 80));
    second = register_module("second", torch::nn::Linear(700, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::relu(first(x))); }
  torch::nn::Linear first = nullptr, unused = nullptr, second = nullptr;
};

TEST_F(SimEquality, BucketsGroupsAndPacksDoNotChangeABit) {
  const auto source = [](int step) { return models::vectors(step); };
  const Trained one = train<Wide>(options(sim_devices(1)), source, kSteps);
  for (const Exchanging& how :
       std::vector<Exchanging>{{.bucket_bytes = 0},
                               {.bucket_bytes = 16 << 10},
                               {.bucket_bytes = 32 << 10, .group = 2},
                               {.group = 3, .packs = 2},
                               {.bucket_bytes = 16 << 10, .group = 4, .packs = 3}})
    for (const int devices : {3, 8}) {
      MirroredOptions many = options(sim_devices(devices));
      many.where.exchange = how;
      expect_same(one, train<Wide>(many, source, kSteps),
                  std::to_string(devices) + " devices, " + std::to_string(how.bucket_bytes) +
                      " bytes, groups of " + std::to_string(how.group) + ", " +
                      std::to_string(how.packs) + " packs");
    }
}

TEST_F(SimEquality, ClippingEachShardIsTheSameBitForBitOn1And3Devices) {
  MirroredOptions one = options(sim_devices(1)), three = options(sim_devices(3));
  one.method.clip = three.method.clip = {.per_shard_norm = 0.3};
  const auto source = [](int step) { return models::vectors(step); };
  expect_same(train<models::Mlp>(one, source, 3), train<models::Mlp>(three, source, 3), "3");
}

TEST_F(SimEquality, ALossThatIsNotFiniteIsRefusedWithItsShardOrSkipped) {
  models::Batch bad = models::vectors(1);
  bad.first[9].fill_(std::numeric_limits<float>::infinity());  // 16 rows in 8 shards
  MirroredOptions how = options(sim_devices(2));
  how.where.exchange.bucket_bytes = 4 << 10;
  Mirrored<models::Mlp> towers(how);
  towers.step(models::vectors(0), models::CrossEntropy{});
  const State before = towers.state();
  try {
    towers.step(bad, models::CrossEntropy{});
    ADD_FAILURE() << "no error";
  } catch (const TowerError& error) {
    EXPECT_EQ(error.shard, 4);
    EXPECT_EQ(error.device, "sim:1");
  }
  EXPECT_EQ(first_difference(before, towers.state()), "");
  how.method.non_finite = NonFinite::skip;
  Mirrored<models::Mlp> skipping(how);
  skipping.step(models::vectors(0), models::CrossEntropy{});
  EXPECT_FALSE(skipping.step(bad, models::CrossEntropy{}).applied);
  for (Mirrored<models::Mlp>* each : {&towers, &skipping})
    EXPECT_TRUE(each->step(models::vectors(2), models::CrossEntropy{}).applied);
  EXPECT_EQ(skipping.skipped(), 1);
}

TEST_F(SimEquality, OnTheCpuFastReductionIsExact) {
  const auto source = [](int step) { return models::vectors(step); };
  MirroredOptions fast = options(cpu_devices(3));
  fast.method.reduction = Reduction::fast;
  expect_same(train<Wide>(options(cpu_devices(1)), source, 2), train<Wide>(fast, source, 2),
              "fast");
}

TEST_F(SimEquality, ABackwardOfTheCallersOwnLeavesNothingBehind) {
  const auto run = [](bool meddle) {
    Mirrored<models::Mlp> towers(options(sim_devices(2)));
    if (meddle)
      towers.model()
          .forward(torch::ones({3, 12}, towers.model().first->weight.device()))
          .sum()
          .backward();
    towers.step(models::vectors(0), models::CrossEntropy{});
    return towers.state();
  };
  EXPECT_EQ(first_difference(run(false), run(true)), "");
}

TEST_F(SimEquality, TwoBackwardsInOneShardAreRefused) {
  Mirrored<models::Mlp> towers(options(sim_devices(2)));
  EXPECT_THROW(towers.step(models::vectors(0),
                           [](models::Mlp& model, const models::Batch& shard) {
                             model.forward(shard.first).sum().backward();
                             return models::CrossEntropy{}(model, shard);
                           }),
               TowerError);
  EXPECT_TRUE(towers.step(models::vectors(0), models::CrossEntropy{}).applied);
}

TEST_F(SimEquality, FastReductionIsRightToRounding) {
  const auto source = [](int step) { return models::vectors(step); };
  const Trained one = train<Wide>(options(sim_devices(1)), source, 1);
  MirroredOptions fast = options(sim_devices(3));
  fast.method.reduction = Reduction::fast;
  const Trained found = train<Wide>(fast, source, 1);
  for (std::size_t i = 0; i < one.state.gradients.size(); ++i)
    // Another order of eight float32 sums.
    EXPECT_TRUE(
        torch::allclose(one.state.gradients[i].value, found.state.gradients[i].value, 1e-5, 1e-7))
        << one.state.gradients[i].name;
}

TEST_F(SimEquality, EveryOptimizerIsTheSameBitForBitOn1And3Devices) {
  for (const Optimizer& optimizer : std::vector<Optimizer>{
           Sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true}, AdamW{}, Adagrad{},
           RmsProp{.momentum = 0.9, .centered = true}, tensorflow_rms_prop(0.01, 0.9, 0.9, 1.0)}) {
    MirroredOptions one = options(sim_devices(1)), three = options(sim_devices(3));
    one.method.optimizer = three.method.optimizer = optimizer;
    const auto source = [](int step) { return models::vectors(step); };
    expect_same(train<models::Mlp>(one, source, kSteps), train<models::Mlp>(three, source, kSteps),
                "optimizer " + std::to_string(optimizer.index()));
  }
}

TEST_F(SimEquality, MlpConvnetAndTiedWeightsAreTheSameBitForBitAsOnTheCpu) {
  expect_equal_to_the_cpu<models::Mlp>([](int step) { return models::vectors(step); });
  expect_equal_to_the_cpu<models::ConvNet>([](int step) { return models::images(step); });
  expect_equal_to_the_cpu<models::Tied>([](int step) { return models::sentences(step); });
  expect_equal_to_the_cpu<Wide>([](int step) { return models::vectors(step); });
}

TEST_F(SimEquality, AnLstmIsThatOfTheCpuTo1e5) {
  // LibTorch takes another kernel for LSTMs there: cell by cell, not oneDNN's.
  const auto source = [](int step) { return models::sentences(step); };
  const Trained cpu = train<models::Attention>(options(cpu_devices(1)), source, 1);
  const Trained sim = train<models::Attention>(options(sim_devices(2)), source, 1);
  EXPECT_NEAR(cpu.losses[0], sim.losses[0], 1e-5);
  for (std::size_t i = 0; i < cpu.state.gradients.size(); ++i)
    EXPECT_TRUE(
        torch::allclose(cpu.state.gradients[i].value, sim.state.gradients[i].value, 1e-5, 1e-5))
        << cpu.state.gradients[i].name;
}

TEST_F(SimEquality, AStateFromThreeDevicesGoesOnOnTwo) {
  const auto source = [](int step) { return models::images(step); };
  const Trained whole = train<models::ConvNet>(options(sim_devices(1)), source, kSteps);
  State half;
  {
    Mirrored<models::ConvNet> towers(options(sim_devices(3)));
    for (int step = 0; step < 2; ++step) towers.step(source(step), models::CrossEntropy{});
    half = towers.state();
  }
  Mirrored<models::ConvNet> towers(options(sim_devices(2)));
  towers.load(half);
  for (int step = 2; step < kSteps; ++step) towers.step(source(step), models::CrossEntropy{});
  EXPECT_EQ(first_difference(whole.state, towers.state()), "");
}

TEST_F(SimEquality, WeightsWrittenBetweenStepsReachEveryDevice) {
  const auto run = [](int devices) {
    Mirrored<models::Mlp> towers(options(sim_devices(devices)));
    for (int step = 0; step < 3; ++step) {
      towers.step(models::vectors(step), models::CrossEntropy{});
      const torch::NoGradGuard no_grad;
      towers.model().first->weight.mul_(0.5);
      towers.model().second->bias.data().add_(0.25);  // LibTorch counts no version here
    }
    return towers.state();
  };
  EXPECT_EQ(first_difference(run(1), run(3)), "");
}

TEST_F(SimEquality, EvaluationAndAveragedWeightsAreThoseOfOneDevice) {
  const auto run = [](int devices) {
    Mirrored<models::ConvNet> towers(options(sim_devices(devices)));
    for (int step = 0; step < 3; ++step) towers.step(models::images(step), models::CrossEntropy{});
    std::vector<models::Batch> batches;
    for (int i = 0; i < 5; ++i) batches.push_back(models::images(100 + i));
    const auto metric = [](models::ConvNet& net, const models::Batch& batch) {
      return Mean{models::CrossEntropy{}(net, batch).item<double>(), 1};
    };
    std::vector<double> values{towers.evaluate(batches, metric).value()};
    towers.with_averaged_weights(
        [&] { values.push_back(towers.evaluate(batches, metric).value()); });
    values.push_back(towers.evaluate(batches, metric).value());
    return values;
  };
  const std::vector<double> one = run(1);
  EXPECT_EQ(one, run(3));
  EXPECT_EQ(one[0], one[2]);
  EXPECT_NE(one[0], one[1]);
}

}  // namespace sim_equality_test
