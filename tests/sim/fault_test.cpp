#include "sim/on_sim.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/placement.h>

namespace fault_test {

namespace sim = lockstep::sim;
using on_sim::device;
using sim::Fault;

TEST(Sim, MemoryAboveTheLimitIsRefused) {
  sim::configure({.devices = 2, .memory_bytes = 1 << 20});
  const auto half = torch::empty({1 << 17}, device(0));
  EXPECT_NO_THROW(torch::empty({1 << 17}, device(0)));
  try {
    torch::empty({1 << 18}, device(0));
    FAIL();
  } catch (const c10::OutOfMemoryError& error) {
    const std::string message = error.what();
    for (const char* word : {"sim:0", "1048576", "524288"})
      EXPECT_NE(message.find(word), std::string::npos) << message;
  }
  EXPECT_NO_THROW(torch::empty({1 << 18}, device(1)));
}

TEST(Sim, AnAllocationByNumberFailsOnce) {
  sim::configure({.devices = 2, .faults = {{Fault::Kind::out_of_memory, 1, 3, 2}}});
  const auto allocate = [](int index) { return torch::empty({10}, device(index)); };
  for (int i = 0; i < 5; ++i) allocate(1);
  sim::begin_step(3);
  for (int i = 0; i < 5; ++i) allocate(0);
  allocate(1);
  allocate(1);
  EXPECT_THROW(allocate(1), c10::OutOfMemoryError);
  EXPECT_NO_THROW(allocate(1));
}

TEST(Sim, ALostDeviceStaysLostAndItsTensorsCanBeFreed) {
  sim::configure({.devices = 2, .faults = {{Fault::Kind::lost, 1, 2, 1}}});
  {
    const auto x = torch::ones({4}, device(1)), y = torch::ones({4}, device(0));
    sim::begin_step(2);
    x.add(1);
    try {
      x.add(1);
      FAIL();
    } catch (const lockstep::DeviceLost& error) {
      EXPECT_EQ(error.device, "sim:1");
    }
    EXPECT_THROW(x.cpu(), lockstep::DeviceLost);
    EXPECT_THROW(x.to(device(0)), lockstep::DeviceLost);
    EXPECT_THROW(torch::empty({4}, device(1)), lockstep::DeviceLost);
    EXPECT_THROW(c10::Stream(c10::Stream::DEFAULT, device(1)).synchronize(), lockstep::DeviceLost);
    EXPECT_NO_THROW(y.add(1));
  }
  sim::configure({.devices = 2});
  EXPECT_NO_THROW(torch::ones({4}, device(1)).add(1));
}

TEST(Sim, ADeviceLostInBackwardIsSeenByTheCaller) {
  sim::configure({.devices = 1, .faults = {{Fault::Kind::lost, 0, 1, 2}}});
  const auto x = torch::ones({4}, torch::TensorOptions().device(device(0)).requires_grad(true));
  const auto loss = (x * x).sum();
  sim::begin_step(1);
  EXPECT_THROW(loss.backward(), lockstep::DeviceLost);
}

TEST(Sim, AMissingOperatorRunsOnTheCpuUnlessStrict) {
  sim::configure({.devices = 1, .missing = {"aten::erfinv"}});
  const auto x = torch::full({4}, 0.5, device(0));
  const auto y = torch::erfinv(x);
  EXPECT_EQ(y.device(), device(0));
  EXPECT_TRUE(on_sim::same_bits(y, torch::erfinv(torch::full({4}, 0.5))));
  lockstep::set_placement(lockstep::Placement::strict);
  EXPECT_THROW(torch::erfinv(x), std::exception);
  lockstep::set_placement(lockstep::Placement::soft);
}

TEST(Sim, UsageCountsBytesPeakAllocationsAndOperators) {
  sim::configure({.devices = 1});
  {
    const auto x = torch::empty({1024}, device(0));
    const auto y = torch::empty({1024}, device(0));
    x.fill_(1);
  }
  const auto z = torch::empty({256}, device(0));
  auto usage = sim::usage(0);
  EXPECT_EQ(usage.bytes, 1024);
  EXPECT_EQ(usage.peak_bytes, 8192);
  EXPECT_EQ(usage.allocations, 3);
  EXPECT_EQ(usage.operators, 1);
  sim::reset_peak(0);
  sim::begin_step(1);
  usage = sim::usage(0);
  EXPECT_EQ(usage.peak_bytes, 1024);
  EXPECT_EQ(usage.allocations, 0);
  EXPECT_EQ(usage.operators, 0);
}

TEST(Sim, TheMachineIsNotMadeAnewUnderATensor) {
  sim::configure({.devices = 1});
  const auto x = torch::empty({4}, device(0));
  EXPECT_THROW(sim::configure({}), std::logic_error);
}

}  // namespace fault_test
