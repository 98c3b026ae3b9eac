#include "sim/on_sim.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <thread>

namespace time_test {

namespace sim = lockstep::sim;
using lockstep::Seconds;
using on_sim::device;
using on_sim::side_stream;

/// A machine whose times are easy to know: 1 MB takes 1 ms to read or write, and 1 ms over a link.
sim::Options simple() {
  sim::Options options;
  options.devices = 2;
  options.memory_bytes_per_second = 1e9;
  options.link_bytes_per_second = 1e9;
  options.link_latency = Seconds{0};
  options.launch = Seconds{0};
  return options;
}

torch::Tensor megabyte(int index = 0) { return torch::empty({250'000}, device(index)); }

double device_ms(int index) { return sim::device_now(index).count() * 1e3; }
double host_ms() { return sim::host_now().count() * 1e3; }

TEST(Sim, AnOperatorTakesItsBytesOverTheMemorysSpeed) {
  sim::configure(simple());
  const auto x = megabyte();
  x.fill_(1);
  EXPECT_NEAR(device_ms(0), 2, 1e-9);  // the argument and the result
  EXPECT_EQ(host_ms(), 0);
}

TEST(Sim, AMatrixProductTakesItsArithmeticOverTheDevicesSpeed) {
  auto options = simple();
  options.arithmetic_per_second = 1e9;
  sim::configure(options);
  const auto a = torch::empty({100, 200}, device(0)), b = torch::empty({200, 50}, device(0));
  torch::mm(a, b);
  EXPECT_NEAR(device_ms(0), 2 * 100 * 200 * 50 * 1e-6, 1e-9);
}

TEST(Sim, TwoStreamsOverlap) {
  sim::configure(simple());
  const auto x = megabyte(), y = megabyte();
  x.fill_(1);
  {
    const c10::StreamGuard guard(side_stream());
    y.fill_(1);
  }
  EXPECT_NEAR(device_ms(0), 2, 1e-9);
}

TEST(Sim, AWaitForAnEventEndsTheOverlap) {
  sim::configure(simple());
  const auto x = megabyte(), y = megabyte();
  const auto side = side_stream();
  x.fill_(1);
  c10::Event event(device(0).type());
  event.record(c10::Stream(c10::Stream::DEFAULT, device(0)));
  side.wait(event);
  const c10::StreamGuard guard(side);
  y.fill_(1);
  EXPECT_NEAR(device_ms(0), 4, 1e-9);
}

TEST(Sim, EventsMeasureVirtualMilliseconds) {
  sim::configure(simple());
  const auto x = megabyte();
  const c10::Stream stream(c10::Stream::DEFAULT, device(0));
  c10::Event first(device(0).type(), c10::EventFlag::BACKEND_DEFAULT);
  c10::Event second(device(0).type(), c10::EventFlag::BACKEND_DEFAULT);
  first.record(stream);
  x.fill_(1);
  second.record(stream);
  EXPECT_FALSE(second.query());
  second.synchronize();
  EXPECT_NEAR(first.elapsedTime(second), 2, 1e-9);
  EXPECT_NEAR(host_ms(), 2, 1e-2);
}

TEST(Sim, ADeviceThreeTimesSlowerTakesThreeTimesAsLong) {
  auto options = simple();
  options.slowdown = {1, 3};
  sim::configure(options);
  megabyte(0).fill_(1);
  megabyte(1).fill_(1);
  EXPECT_NEAR(device_ms(0), 2, 1e-9);
  EXPECT_NEAR(device_ms(1), 6, 1e-9);
}

TEST(Sim, ACopyTakesLatencyAndBytesOverTheLink) {
  auto options = simple();
  options.link_bytes_per_second = 1e8;
  options.link_latency = Seconds{1e-3};
  sim::configure(options);
  const auto x = megabyte(0);
  const auto y = x.to(device(1));
  EXPECT_NEAR(device_ms(1), 11, 1e-9);
  EXPECT_EQ(host_ms(), 0);
  x.cpu();
  EXPECT_NEAR(host_ms(), 22, 1e-9);
}

TEST(Sim, EnqueuingTakesTheHostsTime) {
  auto options = simple();
  options.launch = Seconds{1e-3};
  sim::configure(options);
  const auto x = torch::empty({1}, device(0));
  for (int i = 0; i < 5; ++i) x.fill_(1);
  EXPECT_NEAR(host_ms(), 5, 1e-9);
  EXPECT_NEAR(device_ms(0), 5, 1e-3);
}

TEST(Sim, BackwardGoesOnFromTheCallersTimeAndHandsItBack) {
  auto options = simple();
  options.launch = Seconds{1e-3};
  sim::configure(options);
  const auto x = torch::ones({8}, torch::TensorOptions().device(device(0)).requires_grad(true));
  const auto loss = x.mul(2).sum();
  sim::host_reaches(Seconds{1});
  loss.mul(1).sum().backward();
  const double after = host_ms();
  EXPECT_GT(after, 1002);
  x.detach().fill_(1);
  EXPECT_NEAR(host_ms(), after + 1, 1e-9);
}

TEST(Sim, VirtualTimeIsTheSameEachRun) {
  const auto run = [] {
    sim::configure({.devices = 2});
    std::vector<std::thread> towers;
    for (int i = 0; i < 2; ++i)
      towers.emplace_back([i] {
        auto w =
            torch::ones({16, 16}, torch::TensorOptions().device(device(i)).requires_grad(true));
        for (int step = 0; step < 20; ++step) torch::mm(w, w).relu().sum().backward();
      });
    for (auto& tower : towers) tower.join();
    return std::pair(sim::device_now(0).count(), sim::device_now(1).count());
  };
  const auto first = run();
  EXPECT_GT(first.first, 0);
  EXPECT_EQ(first, run());
  EXPECT_EQ(first, run());
}

TEST(Sim, TheTimelineHasEachOperatorWhereItWas) {
  auto options = simple();
  options.timeline = true;
  sim::configure(options);
  const auto x = megabyte(0);
  x.fill_(1);
  x.to(device(1));
  const auto spans = sim::timeline();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].name, "aten::fill_");
  EXPECT_EQ(spans[1].name, "aten::copy_");
  EXPECT_EQ(spans[1].device, 1);
  EXPECT_EQ(spans[1].stream, 0);
  EXPECT_NEAR(spans[1].begin.count(), 2e-3, 1e-12);
  EXPECT_NEAR(spans[1].end.count(), 3e-3, 1e-12);
}

}  // namespace time_test
