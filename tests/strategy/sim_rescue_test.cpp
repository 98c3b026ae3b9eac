// What a failing device may cost: nothing before the update, and never more than it is named for.

#include "on_sim.h"

namespace sim_rescue_test {

using namespace on_sim;

constexpr int kDevices = 3, kSteps = 4, kFaultyStep = 2;

/// Arenas of two types, with enough elements that every device owns some of each, and buffers.
struct Several : torch::nn::Module {
  Several() {
    first = register_module("first", torch::nn::Linear(12, 900));
    norm = register_module("norm", torch::nn::BatchNorm1d(900));
    second = register_module("second", torch::nn::Linear(900, 16));
    scale = register_parameter("scale", torch::ones({900, 16}, torch::kFloat64));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto hidden = torch::relu(norm(first(x)));
    return second(hidden).narrow(1, 0, 5) +
           torch::matmul(hidden.to(torch::kFloat64), scale).narrow(1, 0, 5);
  }
  torch::nn::Linear first = nullptr, second = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
  torch::Tensor scale;
};

models::Batch batch_at(int step) { return models::vectors(step); }

MirroredOptions how(OnDeviceFailure reaction, int devices = kDevices) {
  MirroredOptions result = options(sim_devices(devices));
  result.where.on_device_failure = reaction;
  result.method.clip.global_norm = 1e-3;  // clips each time
  return result;
}

State reference() {
  sim::configure({.devices = kDevices});
  return train<Several>(how(OnDeviceFailure::stop), batch_at, kSteps).state;
}

sim::Usage usage_in_step(OnDeviceFailure reaction, int device) {
  sim::configure({.devices = kDevices});
  Mirrored<Several> towers(how(reaction));
  for (int step = 0; step <= kFaultyStep; ++step)
    towers.step(batch_at(step), models::CrossEntropy{});
  return sim::usage(device);
}

TEST(SimRescue, ADeviceLostAtAnyOperatorIsReplayedWithSeveralTypesToo) {
  const State expected = reference();
  for (int device = 0; device < kDevices; ++device) {
    const std::int64_t operators = usage_in_step(OnDeviceFailure::replay, device).operators;
    ASSERT_GT(operators, 100);
    int torn = 0, replayed = 0;
    for (std::int64_t at = 0; at < operators; at += 3) {
      sim::configure(
          {.devices = kDevices, .faults = {{.device = device, .step = kFaultyStep, .at = at}}});
      Mirrored<Several> towers(how(OnDeviceFailure::replay));
      try {
        std::size_t left = 0;
        for (int step = 0; step < kSteps; ++step)
          left = towers.step(batch_at(step), models::CrossEntropy{}).towers.size();
        EXPECT_EQ(left, 2U) << "operator " << at;
        EXPECT_EQ(first_difference(expected, towers.state()), "") << "operator " << at;
        ++replayed;
      } catch (const TowerError& error) {
        EXPECT_EQ(error.stage, "update") << "operator " << at << ": " << error.what();
        EXPECT_EQ(error.device, "sim:" + std::to_string(device)) << "operator " << at;
        ++torn;
      }
    }
    EXPECT_GT(replayed, 2 * torn);
  }
}

TEST(SimRescue, TwoDevicesLostInOneStepAreReplayedByTheOthers) {
  const State expected = reference();
  constexpr int kMore = 4;
  for (const std::int64_t second : {0, 1, 20, 60}) {
    sim::configure({.devices = kMore,
                    .faults = {{.device = 1, .step = kFaultyStep, .at = 20},
                               {.device = 2, .step = kFaultyStep, .at = second}}});
    Mirrored<Several> towers(how(OnDeviceFailure::replay, kMore));
    std::size_t left = 0;
    for (int step = 0; step < kSteps; ++step)
      left = towers.step(batch_at(step), models::CrossEntropy{}).towers.size();
    EXPECT_EQ(left, 2U);
    EXPECT_EQ(first_difference(expected, towers.state()), "") << "operator " << second;
  }
}

TEST(SimRescue, AllDevicesLostIsNamed) {
  sim::configure(
      {.devices = 2,
       .faults = {{.device = 0, .step = 1, .at = 20}, {.device = 1, .step = 1, .at = 20}}});
  Mirrored<Several> towers(how(OnDeviceFailure::replay, 2));
  towers.step(batch_at(0), models::CrossEntropy{});
  EXPECT_THROW(towers.step(batch_at(1), models::CrossEntropy{}), TowerError);
  try {
    towers.state();
    ADD_FAILURE() << "no error";
  } catch (const TowerError&) {        // that names a device
  } catch (const std::logic_error&) {  // the second was lost while it took over
  }
}

TEST(SimRescue, OutOfMemoryAtAnyAllocationOfAnyDeviceAppliesNothing) {
  const auto plain = [](State state) {
    state.gradients.clear();
    return state;
  };
  for (int device = 0; device < kDevices; ++device) {
    const std::int64_t allocations = usage_in_step(OnDeviceFailure::stop, device).allocations;
    ASSERT_GT(allocations, 10);
    for (std::int64_t at = 0; at < allocations; at += 2) {
      sim::configure({.devices = kDevices,
                      .faults = {{.kind = sim::Fault::Kind::out_of_memory,
                                  .device = device,
                                  .step = kFaultyStep,
                                  .at = at}}});
      Mirrored<Several> towers(how(OnDeviceFailure::stop));
      for (int step = 0; step < kFaultyStep; ++step)
        towers.step(batch_at(step), models::CrossEntropy{});
      const State before = towers.state();
      try {
        towers.step(batch_at(kFaultyStep), models::CrossEntropy{});
        ADD_FAILURE() << "no error at allocation " << at;
      } catch (const TowerError& error) {
        EXPECT_NE(error.stage, "update") << "allocation " << at << ": " << error.what();
        EXPECT_EQ(error.device, "sim:" + std::to_string(device)) << "allocation " << at;
        EXPECT_THROW(std::rethrow_exception(error.cause), c10::OutOfMemoryError);
      }
      ASSERT_EQ(first_difference(plain(before), plain(towers.state())), "") << "allocation " << at;
    }
  }
}

TEST(SimRescue, NoOptimizerAllocatesInTheUpdate) {
  for (const Optimizer& optimizer : std::vector<Optimizer>{
           Sgd{.lr = 0.1, .momentum = 0.9}, Adam{}, AdamW{}, Adagrad{},
           RmsProp{.momentum = 0.9, .centered = true}, tensorflow_rms_prop(0.01, 0.9, 0.9, 1.0)})
    for (int device = 0; device < 2; ++device) {
      sim::configure({.devices = 2});
      MirroredOptions own = how(OnDeviceFailure::stop, 2);
      own.method.optimizer = optimizer;
      Mirrored<Several> towers(own);
      for (int step = 0; step < 2; ++step) towers.step(batch_at(step), models::CrossEntropy{});
      // The last allocation of a step is before the update.
      sim::inject({.kind = sim::Fault::Kind::out_of_memory,
                   .device = device,
                   .step = 2,
                   .at = sim::usage(device).allocations - 1});
      try {
        towers.step(batch_at(2), models::CrossEntropy{});
        ADD_FAILURE() << "no error";
      } catch (const TowerError& error) {
        EXPECT_NE(error.stage, "update") << "optimizer " << optimizer.index();
      }
    }
}

TEST(SimRescue, StateAfterALossNamesTheDeviceOrDoesWithoutIt) {
  State expected = reference();
  expected.gradients.clear();
  for (const OnDeviceFailure reaction : {OnDeviceFailure::stop, OnDeviceFailure::replay}) {
    sim::configure({.devices = kDevices});
    Mirrored<Several> towers(how(reaction));
    for (int step = 0; step < kSteps; ++step) towers.step(batch_at(step), models::CrossEntropy{});
    const std::int64_t next = sim::usage(1).operators;
    sim::inject({.device = 1, .step = kSteps - 1, .at = next});
    if (reaction == OnDeviceFailure::replay) {
      State found = towers.state();
      found.gradients.clear();  // those of the lost device are gone
      EXPECT_EQ(first_difference(expected, found), "");
    } else {
      try {
        towers.state();
        ADD_FAILURE() << "no error";
      } catch (const TowerError& error) {
        EXPECT_EQ(error.device, "sim:1");
      }
    }
  }
}

TEST(SimRescue, OutOfMemoryWhileAveragesAreSwappedInLosesNothing) {
  const State expected = reference();
  for (int device = 0; device < kDevices; ++device) {
    sim::configure({.devices = kDevices});
    Mirrored<Several> towers(how(OnDeviceFailure::stop));
    for (int step = 0; step < 2; ++step) towers.step(batch_at(step), models::CrossEntropy{});
    const State before = towers.state();
    sim::inject({.kind = sim::Fault::Kind::out_of_memory,
                 .device = device,
                 .step = 1,
                 .at = sim::usage(device).allocations});
    bool evaluated = false;
    try {
      towers.with_averaged_weights([&] { evaluated = true; });
      ADD_FAILURE() << "no error";
    } catch (const TowerError& error) {
      EXPECT_EQ(error.device, "sim:" + std::to_string(device));
      EXPECT_THROW(std::rethrow_exception(error.cause), c10::OutOfMemoryError);
    }
    EXPECT_FALSE(evaluated);
    EXPECT_EQ(first_difference(before, towers.state()), "");
    for (int step = 2; step < kSteps; ++step) towers.step(batch_at(step), models::CrossEntropy{});
    EXPECT_EQ(first_difference(expected, towers.state()), "");
  }
}

TEST(SimRescue, WhatWasWrittenToALostModelIsNotLeftOutInSilence) {
  sim::configure({.devices = kDevices});
  Mirrored<Several> towers(how(OnDeviceFailure::replay));
  towers.step(batch_at(0), models::CrossEntropy{});
  {
    const torch::NoGradGuard no_grad;
    towers.model().first->weight.zero_();
  }
  sim::inject({.device = 0, .step = 0, .at = sim::usage(0).operators});
  EXPECT_THROW(towers.step(batch_at(1), models::CrossEntropy{}), TowerError);
}

TEST(SimRescue, OutOfMemoryWhenShardsAreToMoveLeavesThemWhereTheyAre) {
  const State expected = reference();
  const auto balanced = [] {
    MirroredOptions result = how(OnDeviceFailure::stop);
    result.where.balance = Balance::automatic;
    return result;
  };
  const std::vector<double> slow = {1, 1, 5};
  // At allocations after those of a step that moves no shards.
  sim::configure({.devices = kDevices, .launch = Seconds{0}, .slowdown = slow});
  std::int64_t allocations = 0;
  {
    Mirrored<Several> towers(how(OnDeviceFailure::stop));
    towers.step(batch_at(0), models::CrossEntropy{});
    allocations = sim::usage(0).allocations;
  }
  for (const std::int64_t more : {0, 1, 2}) {
    sim::configure({.devices = kDevices, .launch = Seconds{0}, .slowdown = slow});
    Mirrored<Several> towers(balanced());
    sim::inject({.kind = sim::Fault::Kind::out_of_memory,
                 .device = 0,
                 .step = 0,
                 .at = allocations + more});
    StepReport report;
    for (int step = 0; step < kSteps; ++step) {
      report = towers.step(batch_at(step), models::CrossEntropy{});
      if (step == 1) {
        bool told = false;
        for (const std::string& note : report.notes)
          told = told || note.find("shards stay where they are") != std::string::npos;
        EXPECT_TRUE(told) << "allocation " << more;
      }
    }
    EXPECT_EQ(report.towers.back().shards, 3);  // of 8 on 3 devices, evenly
    EXPECT_EQ(first_difference(expected, towers.state()), "");
  }
}

}  // namespace sim_rescue_test
