// Mixed precision: float32 weights, products in fewer bits.

#include "on_sim.h"

namespace precision_test {

using namespace on_sim;

/// Rows of five classes, each around a centre of its own.
models::Batch clusters(int step, int rows = 64) {
  auto fixed = models::generator(-1);
  const torch::Tensor centres = torch::randn({5, 12}, fixed);
  auto random = models::generator(step);
  const torch::Tensor classes = torch::randint(5, {rows}, random, torch::kInt64);
  return {centres.index_select(0, classes) + 0.8 * torch::randn({rows, 12}, random), classes};
}

double accuracy_after_training(Precision precision) {
  MirroredOptions how = options(cpu_devices(2));
  how.method.clip = {};
  how.method.precision = precision;
  Mirrored<models::Mlp> towers(how);
  for (int step = 0; step < 80; ++step) towers.step(clusters(step), models::CrossEntropy{});
  const std::vector<models::Batch> test{clusters(1000, 2000)};
  return towers
      .evaluate(test,
                [](models::Mlp& model, const models::Batch& batch) {
                  const auto right = model.forward(batch.first).argmax(1).eq(batch.second);
                  return Mean{right.sum().item<double>(), 2000};
                })
      .value();
}

TEST(MixedPrecision, BFloat16OnTheCpuLearnsAsWellAsFloat32) {
  const double full = accuracy_after_training(Precision::float32);
  const double mixed = accuracy_after_training(Precision::bfloat16);
  EXPECT_GT(full, 0.9);
  EXPECT_GT(mixed, full - 0.01);  // within a percent: 8 bits of precision in the products
}

TEST(MixedPrecision, WeightsSlotsAndGradientsStayFloat32AndProductsDoNot) {
  MirroredOptions how = options(cpu_devices(1));
  how.method.precision = Precision::bfloat16;
  Mirrored<models::Mlp> towers(how);
  std::atomic<bool> narrow = false;
  towers.step(clusters(0), [&](models::Mlp& model, const models::Batch& shard) {
    const torch::Tensor output = model.forward(shard.first);
    narrow = output.scalar_type() == torch::kBFloat16;
    return torch::nn::functional::cross_entropy(output, shard.second);
  });
  EXPECT_TRUE(narrow);
  const State state = towers.state();
  for (const auto* list : {&state.parameters, &state.slots, &state.gradients})
    for (const NamedTensor& tensor : *list)
      EXPECT_EQ(tensor.value.scalar_type(), torch::kFloat32) << tensor.name;
}

TEST(MixedPrecision, BFloat16IsTheSameBitForBitOnAnyNumberOfDevices) {
  sim::configure({.devices = 4});
  for (const bool simulated : {false, true}) {
    const auto run = [&](int devices) {
      MirroredOptions how = options(simulated ? sim_devices(devices) : cpu_devices(devices));
      how.method.precision = Precision::bfloat16;
      return train<models::Mlp>(
          how, [](int step) { return clusters(step); }, 5);
    };
    const Trained one = run(1);
    for (const int devices : {2, 3, 4}) expect_same(one, run(devices), std::to_string(devices));
  }
}

/// A loss whose gradient overflows float16 when it is scaled by more than 2^10 or so.
struct Steep {
  torch::Tensor operator()(models::Mlp& model, const models::Batch& shard) const {
    return 64 * torch::nn::functional::cross_entropy(model.forward(shard.first), shard.second);
  }
};

struct Scaled {
  std::vector<bool> applied;
  State state;
};

Scaled train_scaled(const MirroredOptions& how, int steps) {
  Mirrored<models::Mlp> towers(how);
  Scaled result;
  for (int step = 0; step < steps; ++step)
    result.applied.push_back(towers.step(clusters(step), Steep{}).applied);
  result.state = towers.state();
  return result;
}

MirroredOptions scaled(std::vector<Device> devices) {
  MirroredOptions how = options(std::move(devices));
  how.method.precision = Precision::float16;
  how.method.loss_scaling = {.initial = 1 << 24, .growth_interval = 4};
  return how;
}

TEST(MixedPrecision, AnOverflowSkipsTheStepOnAllTowersAndHalvesTheScale) {
  const Scaled one = train_scaled(scaled(cpu_devices(1)), 24);
  EXPECT_FALSE(one.applied.front());
  EXPECT_LT(one.state.loss_scale, 1 << 24);
  EXPECT_GT(one.state.updates, 4);
  EXPECT_EQ(one.state.steps, 24);
  const Scaled three = train_scaled(scaled(cpu_devices(3)), 24);
  EXPECT_EQ(one.applied, three.applied);
  EXPECT_EQ(one.state.loss_scale, three.state.loss_scale);
  EXPECT_EQ(first_difference(one.state, three.state), "");
}

TEST(MixedPrecision, AStateOfAnotherPrecisionHasNoLossScaleAndTheFirstOneIsTaken) {
  MirroredOptions plain = scaled(cpu_devices(1));
  plain.method.precision = Precision::float32;
  const State trained = train_scaled(plain, 3).state;
  Mirrored<models::Mlp> towers(scaled(cpu_devices(2)));
  towers.load(trained);
  EXPECT_EQ(towers.state().loss_scale, 1 << 24);
}

TEST(MixedPrecision, TheLossScaleIsPartOfTheState) {
  const Scaled whole = train_scaled(scaled(cpu_devices(2)), 24);
  State half = train_scaled(scaled(cpu_devices(2)), 11).state;
  Mirrored<models::Mlp> towers(scaled(cpu_devices(3)));
  towers.load(half);
  for (int step = 11; step < 24; ++step) towers.step(clusters(step), Steep{});
  EXPECT_EQ(towers.state().loss_scale, whole.state.loss_scale);
  EXPECT_EQ(towers.state().good_steps, whole.state.good_steps);
  EXPECT_EQ(first_difference(whole.state, towers.state()), "");
}

}  // namespace precision_test
