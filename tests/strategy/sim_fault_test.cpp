// Devices that fail, at every operator and at every allocation of a step.

#include "on_sim.h"

namespace sim_fault_test {

using namespace on_sim;

constexpr int kDevices = 3, kSteps = 4, kFaultyStep = 2;

const auto kSource = [](int step) { return models::vectors(step); };

State reference() {
  sim::configure({.devices = kDevices});
  return train<models::Mlp>(options(sim_devices(kDevices)), kSource, kSteps).state;
}

State without_gradients(State state) {
  state.gradients.clear();
  return state;
}

/// What one run with a fault came to.
struct Training {
  int failures = 0;
  std::string device, stage;
  State before, after;  ///< the failed step
  State last;
  std::size_t towers = 0;  ///< at the end
};

/// Trains; a step that fails is tried again.
Training train_with(const sim::Fault& fault, OnDeviceFailure reaction) {
  sim::configure({.devices = kDevices, .faults = {fault}});
  MirroredOptions how = options(sim_devices(kDevices));
  how.where.on_device_failure = reaction;
  Mirrored<models::Mlp> towers(how);
  Training run;
  for (int step = 0; step < kSteps; ++step) try {
      if (step == kFaultyStep && run.failures == 0) run.before = towers.state();
      run.towers = towers.step(kSource(step), models::CrossEntropy{}).towers.size();
    } catch (const TowerError& error) {
      ++run.failures;
      run.device = error.device;
      run.stage = error.stage;
      if (fault.kind == sim::Fault::Kind::lost) return run;
      run.after = towers.state();
      --step;
    }
  run.last = towers.state();
  return run;
}

/// Allocations and operators of one device in the faulty step.
sim::Usage usage_in_step(OnDeviceFailure reaction, int device) {
  sim::configure({.devices = kDevices});
  MirroredOptions how = options(sim_devices(kDevices));
  how.where.on_device_failure = reaction;
  Mirrored<models::Mlp> towers(how);
  for (int step = 0; step <= kFaultyStep; ++step)
    towers.step(kSource(step), models::CrossEntropy{});
  return sim::usage(device);
}

TEST(SimFault, OutOfMemoryAtAnyAllocationOfAStepAppliesNothingAndNamesTheDevice) {
  const State expected = reference();
  constexpr int kOwner = 2;  // of the only block
  const std::int64_t allocations = usage_in_step(OnDeviceFailure::stop, kOwner).allocations;
  ASSERT_GT(allocations, 10);
  std::set<std::string> stages;
  for (std::int64_t at = 0; at < allocations; ++at) {
    const Training run = train_with(
        {.kind = sim::Fault::Kind::out_of_memory, .device = kOwner, .step = kFaultyStep, .at = at},
        OnDeviceFailure::stop);
    ASSERT_EQ(run.failures, 1) << "allocation " << at;
    EXPECT_EQ(run.device, "sim:2") << "allocation " << at;
    EXPECT_EQ(first_difference(without_gradients(run.before), without_gradients(run.after)), "")
        << "allocation " << at;
    EXPECT_EQ(first_difference(expected, run.last), "") << "allocation " << at;
    stages.insert(run.stage);
  }
  // An update allocates nothing, so it does not run out of memory.
  EXPECT_EQ(stages, (std::set<std::string>{"backward", "forward", "input", "reduce"}));
}

TEST(SimFault, ADeviceLostAtAnyOperatorIsNamedAndBeforeTheUpdateReplayedByTheOthers) {
  const State expected = reference();
  const std::int64_t operators = usage_in_step(OnDeviceFailure::replay, 1).operators;
  ASSERT_GT(operators, 50);
  int replayed = 0, torn = 0;
  for (std::int64_t at = 0; at < operators; ++at) {
    const sim::Fault fault{
        .kind = sim::Fault::Kind::lost, .device = 1, .step = kFaultyStep, .at = at};
    const Training stopped = train_with(fault, OnDeviceFailure::stop);
    if (stopped.failures == 1) {
      EXPECT_EQ(stopped.device, "sim:1") << "operator " << at;
    }
    const Training run = train_with(fault, OnDeviceFailure::replay);
    if (run.failures == 1) {
      EXPECT_EQ(run.stage, "update") << "operator " << at;
      EXPECT_EQ(run.device, "sim:1") << "operator " << at;
      ++torn;
      continue;
    }
    ++replayed;
    EXPECT_EQ(run.towers, 2U) << "operator " << at;
    EXPECT_EQ(first_difference(expected, run.last), "") << "operator " << at;
  }
  EXPECT_GT(torn, 0);
  EXPECT_GT(replayed, 2 * torn);  // weights are in danger only while they are written
}

TEST(SimFault, ADeviceLostInTheCollectiveIsReplayed) {
  const State expected = reference();
  // The last operators before the update: sums of slices and their squares.
  sim::configure({.devices = kDevices, .timeline = true});
  const auto how = [] {
    MirroredOptions result = options(sim_devices(kDevices));
    result.where.on_device_failure = OnDeviceFailure::replay;
    return result;
  };
  std::int64_t in_reduce = -1;
  {
    Mirrored<models::Mlp> towers(how());
    for (int step = 0; step <= kFaultyStep; ++step)
      towers.step(kSource(step), models::CrossEntropy{});
    std::int64_t count = 0;
    const auto spans = sim::timeline();
    std::int64_t all = 0;
    for (const sim::Span& span : spans) all += span.device == 1;
    const std::int64_t before = all - sim::usage(1).operators;
    for (const sim::Span& span : spans) {
      if (span.device != 1) continue;
      if (count >= before && span.name == "lockstep::block_squares") in_reduce = count - before;
      ++count;
    }
  }
  ASSERT_GE(in_reduce, 0);
  const Training run = train_with(
      {.kind = sim::Fault::Kind::lost, .device = 1, .step = kFaultyStep, .at = in_reduce},
      OnDeviceFailure::replay);
  EXPECT_EQ(run.failures, 0);
  EXPECT_EQ(run.towers, 2U);
  EXPECT_EQ(first_difference(expected, run.last), "");
}

TEST(SimFault, ADeviceLostIsReplayedWithBuffersAndManyBucketsToo) {
  const auto source = [](int step) { return models::images(step); };
  const auto run = [&](std::vector<sim::Fault> faults) {
    sim::configure({.devices = kDevices, .faults = std::move(faults)});
    MirroredOptions how = options(sim_devices(kDevices));
    how.where.on_device_failure = OnDeviceFailure::replay;
    how.where.exchange.bucket_bytes = 1;  // one block each
    Mirrored<models::ConvNet> towers(how);
    std::size_t left = 0;
    for (int step = 0; step < kSteps; ++step)
      left = towers.step(source(step), models::CrossEntropy{}).towers.size();
    return std::pair(left, towers.state());
  };
  const State expected = run({}).second;
  for (const std::int64_t at : {0, 10, 30, 50}) {
    const auto [left, found] =
        run({{.kind = sim::Fault::Kind::lost, .device = 1, .step = kFaultyStep, .at = at}});
    EXPECT_EQ(left, 2U) << "operator " << at;
    EXPECT_EQ(first_difference(expected, found), "") << "operator " << at;
  }
}

TEST(SimFault, ADeviceOutOfMemoryIsReplayedByTheOthersToo) {
  const State expected = reference();
  for (const std::int64_t at : {0, 5, 12}) {
    const Training run = train_with(
        {.kind = sim::Fault::Kind::out_of_memory, .device = 2, .step = kFaultyStep, .at = at},
        OnDeviceFailure::replay);
    EXPECT_EQ(run.failures, 0);
    EXPECT_EQ(run.towers, 2U);
    EXPECT_EQ(first_difference(expected, run.last), "");
  }
}

TEST(SimFault, TheReportSaysWhichDeviceIsGone) {
  sim::configure({.devices = kDevices,
                  .faults = {{.kind = sim::Fault::Kind::lost, .device = 0, .step = 1, .at = 3}}});
  MirroredOptions how = options(sim_devices(kDevices));
  how.where.on_device_failure = OnDeviceFailure::replay;
  Mirrored<models::Mlp> towers(how);
  towers.step(kSource(0), models::CrossEntropy{});
  const StepReport report = towers.step(kSource(1), models::CrossEntropy{});
  ASSERT_EQ(report.towers.size(), 2U);
  EXPECT_EQ(report.towers[0].device, "sim:1");
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_NE(report.notes[0].find("sim:0"), std::string::npos) << report.notes[0];
  // The caller's model is one that is still there.
  EXPECT_EQ(towers.model().first->weight.device().index(), 1);
}

}  // namespace sim_fault_test
