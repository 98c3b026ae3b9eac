// Operators that a device cannot run, and devices that are not there.

#include <lockstep/placement.h>

#include "on_sim.h"

namespace sim_placement_test {

using namespace on_sim;

struct Odd : torch::nn::Module {
  Odd() { linear = register_module("linear", torch::nn::Linear(12, 5)); }
  torch::Tensor forward(const torch::Tensor& x) { return torch::elu(linear(x)); }
  torch::nn::Linear linear = nullptr;
};

std::int64_t fallback_count() {
  std::int64_t count = 0;
  for (const Fallback& fallback : fallbacks()) count += fallback.count;
  return count;
}

class SimPlacement : public testing::Test {
 protected:
  void SetUp() override { sim::configure({.devices = 2, .missing = {"aten::elu"}}); }
  void TearDown() override { set_placement(Placement::soft); }
};

TEST_F(SimPlacement, AMissingOperatorRunsOnTheCpuAndIsCountedAndSaidOnce) {
  const auto source = [](int step) { return models::vectors(step); };
  const std::int64_t before = fallback_count();  // they are counted for the whole process
  Mirrored<Odd> towers(options(sim_devices(2)));
  const StepReport first = towers.step(source(0), models::CrossEntropy{});
  const StepReport second = towers.step(source(1), models::CrossEntropy{});
  int said = 0;
  for (const StepReport* report : {&first, &second})
    for (const std::string& note : report->notes)
      said += note.find("aten::elu runs on the CPU for sim:") != std::string::npos;
  EXPECT_EQ(said, 2);  // once a device
  for (const Fallback& fallback : fallbacks()) {
    EXPECT_EQ(fallback.op, "aten::elu");
    EXPECT_NE(fallback.module.find("linear"), std::string::npos);
  }
  EXPECT_EQ(fallback_count() - before, 16);  // 8 shards, 2 steps
  Mirrored<Odd> cpu(options(cpu_devices(1)));
  for (int step = 0; step < 2; ++step) cpu.step(source(step), models::CrossEntropy{});
  EXPECT_EQ(first_difference(cpu.state(), towers.state()), "");
}

TEST_F(SimPlacement, StrictPlacementNamesOperatorDeviceAndModule) {
  set_placement(Placement::strict);
  Mirrored<Odd> towers(options(sim_devices(1)));
  try {
    towers.step(models::vectors(0), models::CrossEntropy{});
    ADD_FAILURE() << "no error";
  } catch (const TowerError& error) {
    const std::string what = error.what();
    for (const char* word : {"aten::elu", "sim:0", "linear"})
      EXPECT_NE(what.find(word), std::string::npos) << what;
  }
}

TEST_F(SimPlacement, TensorsMadeInForwardLandOnTheTowersDevice) {
  struct Making : torch::nn::Module {
    Making() { linear = register_module("linear", torch::nn::Linear(12, 5)); }
    torch::Tensor forward(const torch::Tensor& x) {
      // Written for the CPU: no device anywhere.
      return linear(x) + torch::zeros({x.size(0), 5}) + torch::arange(5).to(torch::kFloat32);
    }
    torch::nn::Linear linear = nullptr;
  };
  Mirrored<Making> towers(options(sim_devices(2)));
  EXPECT_TRUE(towers.step(models::vectors(0), models::CrossEntropy{}).applied);
}

TEST_F(SimPlacement, AMemoryLimitIsKept) {
  MirroredOptions how = options(sim_devices(1));
  how.where.memory_limit.bytes = 8 << 10;
  // Parameters, slots and average of the model alone take more.
  EXPECT_THROW(Mirrored<models::Mlp>{how}, c10::OutOfMemoryError);
  how.where.memory_limit.bytes = 20 << 20;
  Mirrored<models::Mlp> towers(how);
  EXPECT_LE(towers.step(models::vectors(0), models::CrossEntropy{}).towers[0].peak_bytes, 20 << 20);
}

TEST_F(SimPlacement, DevicesOfTwoKindsAreRefused) {
  EXPECT_THROW(Mirrored<models::Mlp>(options({{DeviceKind::cpu, 0}, {DeviceKind::sim, 0}})),
               ConfigError);
  EXPECT_THROW(Mirrored<models::Mlp>(options({{DeviceKind::sim, 5}})), ConfigError);
}

}  // namespace sim_placement_test
