// Small programs with exactly one mistake each, and the same programs mended.

#include "arena/arena.h"
#include "sim/on_sim.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <set>

namespace order_test {

using lockstep::sim::MixedDevices;
using lockstep::sim::OrderError;
using on_sim::device;
using on_sim::side_stream;

enum class Program { mistaken, mended };

c10::Stream main_stream(int index = 0) {
  return c10::impl::VirtualGuardImpl(device(0).type()).getDefaultStream(device(index));
}

/// Makes `later` wait for all that `earlier` has been given.
void order(const c10::Stream& earlier, const c10::Stream& later) {
  c10::Event event(device(0).type());
  event.record(earlier);
  later.wait(event);
}

torch::Tensor ones(int index = 0) { return torch::ones({4, 8}, device(index)); }

template <class Run>
std::string message_of(const Run& run) {
  try {
    run();
  } catch (const OrderError& error) {
    return error.what();
  }
  return "no error";
}

/// The mistaken program must throw OrderError and name `words`; the mended one must not throw.
template <class Run>
void expect_caught(const Run& run, std::initializer_list<const char*> words) {
  lockstep::sim::configure({.devices = 2});
  const std::string message = message_of([&] { run(Program::mistaken); });
  for (const char* word : words)
    EXPECT_NE(message.find(word), std::string::npos) << word << " is not in: " << message;
  lockstep::sim::configure({.devices = 2});
  EXPECT_NO_THROW(run(Program::mended));
}

TEST(Sim, AReadOfASeatWithoutAnEventAfterTheWriteOfItsArenaIsAnError) {
  const auto program = [](Program which) {
    using namespace lockstep::arena;
    std::vector<Entry> entries = {{"a", ones()}, {"b", ones()}};
    const Layout layout = layouts(entries)[0];
    const torch::Tensor flat = allocate(layout, device(0));
    for (const Seat& where : layout.seats) seat(entries[where.entry].tensor, flat, where);
    view(flat, layout.seats[1]).fill_(2);
    const auto side = side_stream();
    if (which == Program::mended) order(main_stream(), side);
    const c10::StreamGuard guard(side);
    EXPECT_EQ(entries[1].tensor.sum().item<float>(), 64);
  };
  expect_caught(program, {"aten::sum", "aten::fill_", "event"});
}

TEST(Sim, AReadWithoutAnEventAfterTheWriteIsAnError) {
  const auto program = [](Program which) {
    const auto x = ones();
    x.mul_(2);
    const auto side = side_stream();
    if (which == Program::mended) order(main_stream(), side);
    const c10::StreamGuard guard(side);
    x.add(1);
  };
  expect_caught(program, {"aten::add", "stream 1 of sim:0", "aten::mul", "stream 0 of sim:0",
                          "Float [4, 8]", "reads", "writes", "event"});
}

TEST(Sim, AWriteWithoutAnEventAfterTheReadIsAnError) {
  const auto program = [](Program which) {
    const auto x = ones();
    const auto side = side_stream();
    order(main_stream(), side);
    torch::Tensor sum;
    {
      const c10::StreamGuard guard(side);
      sum = x.sum();
    }
    if (which == Program::mended) order(side, main_stream());
    x.zero_();
  };
  expect_caught(program, {"aten::zero_", "stream 0 of sim:0", "aten::sum", "stream 1 of sim:0"});
}

TEST(Sim, TwoWritesWithoutAnEventAreAnError) {
  const auto program = [](Program which) {
    const auto x = torch::empty({16}, device(0));
    const auto one = side_stream(), two = side_stream();
    {
      const c10::StreamGuard guard(one);
      x.fill_(1);
    }
    if (which == Program::mended) order(one, two);
    const c10::StreamGuard guard(two);
    x.fill_(2);
  };
  expect_caught(program, {"aten::fill_", "stream 1 of sim:0", "stream 2 of sim:0"});
}

TEST(Sim, AnEventRecordedTooEarlyIsAnError) {
  const auto program = [](Program which) {
    const auto x = ones();
    const auto side = side_stream();
    c10::Event event(device(0).type());
    event.record(main_stream());
    x.mul_(2);
    if (which == Program::mended) event.record(main_stream());
    side.wait(event);
    const c10::StreamGuard guard(side);
    x.add(1);
  };
  expect_caught(program, {"aten::add", "aten::mul"});
}

TEST(Sim, MemoryReusedWithoutRecordStreamIsAnError) {
  const auto program = [](Program which) {
    const auto side = side_stream();
    {
      const auto x = ones();
      order(main_stream(), side);
      const c10::StreamGuard guard(side);
      if (which == Program::mended) x.record_stream(side);
      x.sum();
    }
    ones().add(1);
  };
  expect_caught(program, {"memory reused too early", "aten::sum", "stream 1 of sim:0",
                          "stream 0 of sim:0", "record_stream"});
}

TEST(Sim, MemoryReusedAfterWaitingForTheOtherStreamIsFine) {
  lockstep::sim::configure({.devices = 1});
  const auto side = side_stream();
  {
    const auto x = ones();
    order(main_stream(), side);
    const c10::StreamGuard guard(side);
    x.sum();
  }
  order(side, main_stream());
  EXPECT_NO_THROW(ones().add(1));
}

TEST(Sim, ACopyToAnotherDeviceWithoutAnEventIsAnError) {
  const auto program = [](Program which) {
    const auto x = ones(0);
    const auto side = side_stream(0);
    order(main_stream(0), side);
    {
      const c10::StreamGuard guard(side);
      x.mul_(3);
    }
    if (which == Program::mended) order(side, main_stream(1));
    x.to(device(1));
  };
  expect_caught(program, {"aten::copy_", "stream 0 of sim:1", "aten::mul", "stream 1 of sim:0"});
}

TEST(Sim, ARaceOnTheRunningStatisticsOfBatchNormIsAnError) {
  const auto program = [](Program which) {
    const auto x = ones();
    const auto mean = torch::zeros({8}, device(0)), variance = torch::ones({8}, device(0));
    const auto side = side_stream();
    order(main_stream(), side);
    torch::batch_norm(x, {}, {}, mean, variance, /*training=*/true, 0.1, 1e-5, false);
    if (which == Program::mended) order(main_stream(), side);
    const c10::StreamGuard guard(side);
    mean.add(variance);
  };
  expect_caught(program, {"aten::add", "aten::native_batch_norm", "reads", "writes"});
}

TEST(Sim, BatchNormOfAnEvaluationOnlyReadsItsRunningStatistics) {
  lockstep::sim::configure({.devices = 1});
  const auto mean = torch::zeros({8}, device(0)), variance = torch::ones({8}, device(0));
  const auto side = side_stream();
  const auto x = ones();
  order(main_stream(), side);
  const auto evaluate = [&] {
    return torch::batch_norm(x, {}, {}, mean, variance, /*training=*/false, 0.1, 1e-5, false);
  };
  const auto first = evaluate();
  const c10::StreamGuard guard(side);
  EXPECT_NO_THROW(evaluate());
}

TEST(Sim, StatisticsGatheredFromTheBatchAreWrittenToo) {
  const auto program = [](Program which) {
    const auto x = ones();
    const auto mean = torch::zeros({8}, device(0)), variance = torch::ones({8}, device(0));
    const auto side = side_stream();
    order(main_stream(), side);
    at::batch_norm_update_stats(x, mean, variance, 0.1);
    if (which == Program::mended) order(main_stream(), side);
    const c10::StreamGuard guard(side);
    variance.add(1);
  };
  expect_caught(program, {"aten::add", "aten::batch_norm_update_stats"});
}

TEST(Sim, EveryOperatorWithRunningStatisticsIsKnownToWriteOrToRead) {
  // A LibTorch with another one needs a look at updates_in_silence.
  const std::set<std::string> made_of_others = {"batch_norm", "instance_norm",
                                                "_batch_norm_impl_index"};
  const std::set<std::string> write = {
      "native_batch_norm",       "cudnn_batch_norm",        "miopen_batch_norm",
      "batch_norm_update_stats", "batch_norm_gather_stats", "batch_norm_gather_stats_with_counts"};
  const std::set<std::string> read = {"_native_batch_norm_legit_no_training",
                                      "_batch_norm_no_update",
                                      "_native_batch_norm_legit_functional",
                                      "_batch_norm_with_update_functional",
                                      "native_batch_norm_backward",
                                      "batch_norm_backward",
                                      "cudnn_batch_norm_backward",
                                      "miopen_batch_norm_backward",
                                      "_batch_norm_impl_index_backward"};
  std::set<std::string> found, known;
  for (const auto* names : {&made_of_others, &write, &read})
    known.insert(names->begin(), names->end());
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || name.name.rfind("aten::", 0) != 0) continue;
    for (const c10::Argument& argument : op->schema().arguments())
      if (argument.name() == "running_mean" &&
          !(argument.alias_info() && argument.alias_info()->isWrite()))
        found.insert(name.name.substr(6));
  }
  EXPECT_EQ(found, known);
}

TEST(Sim, ANarrowedPartOfAnArenaHasAnOrderOfItsOwn) {
  lockstep::sim::configure({.devices = 1});
  const auto arena = torch::zeros({1000}, device(0));
  const auto side = side_stream();
  order(main_stream(), side);
  arena.narrow(0, 0, 500).fill_(1);
  {
    const c10::StreamGuard guard(side);
    EXPECT_NO_THROW(arena.narrow(0, 500, 500).fill_(2));
    EXPECT_THROW(arena.narrow(0, 499, 2).fill_(3), OrderError);
  }
  order(side, main_stream());
  EXPECT_EQ(arena.sum().item<float>(), 1500);
}

TEST(Sim, AHostReadOfPinnedMemoryBeforeSynchronisingReadsPoison) {
  lockstep::sim::configure({.devices = 1});
  const auto x = ones();
  const auto host = torch::zeros({4, 8}, torch::TensorOptions().pinned_memory(true));
  ASSERT_TRUE(host.is_pinned());
  host.copy_(x, /*non_blocking=*/true);
  EXPECT_TRUE(host.isnan().all().item<bool>());
  main_stream().synchronize();
  EXPECT_TRUE(torch::equal(host, torch::ones({4, 8})));
}

TEST(Sim, PinnedMemorySentOnWithoutAnEventIsAnError) {
  const auto program = [](Program which) {
    const auto x = ones();
    const auto host = torch::zeros({4, 8}, torch::TensorOptions().pinned_memory(true));
    host.copy_(x, /*non_blocking=*/true);
    if (which == Program::mended) order(main_stream(0), main_stream(1));
    const auto y = torch::empty({4, 8}, device(1));
    y.copy_(host, /*non_blocking=*/true);
    EXPECT_EQ(y.sum().item<float>(), 32);
  };
  expect_caught(program, {"aten::copy_", "stream 0 of sim:0", "stream 0 of sim:1", "pinned"});
}

TEST(Sim, AHostWriteToPinnedMemoryThatIsBeingCopiedIsAnError) {
  const auto program = [](Program which) {
    const auto host = torch::zeros({4, 8}, torch::TensorOptions().pinned_memory(true));
    const auto x = torch::empty({4, 8}, device(0));
    x.copy_(host, /*non_blocking=*/true);
    if (which == Program::mended) main_stream().synchronize();
    host.fill_(1);
    main_stream().synchronize();
  };
  expect_caught(program, {"the host wrote", "aten::copy_", "stream 0 of sim:0"});
}

TEST(Sim, ANonBlockingCopyFromUnpinnedMemoryOrdersNothing) {
  const auto program = [](Program which) {
    const auto host = torch::zeros({4, 8});
    const auto x = torch::empty({4, 8}, device(0));
    x.copy_(host, /*non_blocking=*/true);
    host.fill_(1);  // was read before the copy returned
    const auto side = side_stream();
    if (which == Program::mended) order(main_stream(), side);
    const c10::StreamGuard guard(side);
    EXPECT_EQ(x.sum().item<float>(), 0);
  };
  expect_caught(program, {"aten::sum", "aten::copy_"});
}

TEST(Sim, ABlockingCopyFromUnpinnedMemoryIsKnownToEveryStream) {
  lockstep::sim::configure({.devices = 1});
  const auto x = torch::empty({4, 8}, device(0));
  x.copy_(torch::zeros({4, 8}));
  const c10::StreamGuard guard(side_stream());
  EXPECT_NO_THROW(x.add(1));
}

TEST(Sim, WhatTheHostWaitedForIsKnownToEveryStream) {
  lockstep::sim::configure({.devices = 2});
  const auto x = ones();
  x.mul_(2);
  EXPECT_EQ(x.sum().item<float>(), 64);
  const c10::StreamGuard guard(side_stream());
  EXPECT_NO_THROW(x.add(1));
}

TEST(Sim, AnOperatorOnTwoDevicesIsAnErrorThatNamesBoth) {
  lockstep::sim::configure({.devices = 2});
  const auto x = ones(0), y = ones(1);
  try {
    x.add(y);
    FAIL();
  } catch (const MixedDevices& error) {
    const std::string message = error.what();
    for (const char* word : {"aten::add", "sim:0", "sim:1"})
      EXPECT_NE(message.find(word), std::string::npos) << message;
  }
  EXPECT_NO_THROW(x.add(y.to(device(0))));
}

TEST(Sim, AnOperatorMixesWithNumbersOfTheCpuOnly) {
  lockstep::sim::configure({.devices = 1});
  const auto x = ones();
  EXPECT_NO_THROW(x.mul(torch::tensor(2.0)));
  EXPECT_THROW(x.mul(torch::ones({4, 8})), MixedDevices);
  EXPECT_THROW(torch::ones({4, 8}).mul(x), MixedDevices);
  EXPECT_THROW(torch::linear(torch::ones({2, 8}), x), MixedDevices);
  EXPECT_NO_THROW(x.index({torch::tensor({0, 2})}));
}

}  // namespace order_test
