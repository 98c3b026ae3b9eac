// Random numbers on simulated devices: where they are drawn, and a scope's stream there.

#include "device/random_stream.h"
#include "sim/generator.h"
#include "sim/on_sim.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace random_test {

using lockstep::device::RandomScope;
using on_sim::device;
using on_sim::same_bits;

class SimRandom : public testing::Test {
 protected:
  void SetUp() override { lockstep::sim::configure({.devices = 2}); }
};

at::Generator generator(std::uint64_t seed, int index = 0) {
  at::Generator result = lockstep::sim::make_generator(index);
  result.set_current_seed(seed);
  return result;
}

/// LibTorch gives the first a generator; the second chooses its own.
torch::Tensor draws(c10::Device on) {
  return torch::cat({torch::rand({20}, on), torch::dropout(torch::ones({50}, on), 0.5, true)});
}

TEST_F(SimRandom, DropoutDrawsFromTheDefaultGeneratorOfItsDevice) {
  torch::manual_seed(3);
  const auto expected = torch::dropout(torch::ones({50}), 0.5, true);
  EXPECT_TRUE(same_bits(expected, torch::dropout(torch::ones({50}, device(0)), 0.5, true)));
  EXPECT_TRUE(same_bits(expected, torch::dropout(torch::ones({50}, device(1)), 0.5, true)));
}

TEST_F(SimRandom, NothingElseOfTheCpusChoosesItsOwnGenerator) {
  // What else has this tag and a CPU kernel draws nothing: one picks a kernel, the other refuses
  // dropout. All others are made of operators that take a generator.
  std::set<std::string> found;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !op->hasTag(at::Tag::nondeterministic_seeded) ||
        !op->hasKernelForDispatchKey(c10::DispatchKey::CPU))
      continue;
    bool takes_one = false;
    for (const c10::Argument& argument : op->schema().arguments())
      takes_one = takes_one || argument.type()->str() == "Generator?";
    if (!takes_one) found.insert(name.name);
  }
  EXPECT_EQ(found, (std::set<std::string>{"aten::_fused_sdp_choice", "aten::native_dropout",
                                          "aten::_scaled_dot_product_flash_attention_for_cpu"}));
}

TEST_F(SimRandom, AScopesStreamIsTheCpusForTheSameSeed) {
  torch::Tensor on_cpu, on_device;
  {
    const RandomScope scope(at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{5}));
    on_cpu = draws(torch::kCPU);
  }
  {
    const RandomScope scope(generator(5));
    on_device = draws(device(0));
  }
  EXPECT_TRUE(same_bits(on_cpu, on_device));
}

TEST_F(SimRandom, ScopesNestAndLeaveTheDefaultGeneratorAsItWas) {
  torch::manual_seed(3);
  const auto outside = torch::stack({draws(device(0)), draws(device(0))});
  torch::manual_seed(3);
  const auto first = draws(device(0));
  torch::Tensor inner, before, after;
  at::Generator stream = generator(5);
  {
    const RandomScope outer(stream);
    before = draws(device(0));
    {
      const RandomScope nested(generator(6));
      inner = draws(device(0));
    }
  }
  {
    const RandomScope later(stream);  // goes on where it was
    after = draws(device(0));
  }
  EXPECT_TRUE(same_bits(outside, torch::stack({first, draws(device(0))})));
  const RandomScope scope(generator(5));
  EXPECT_TRUE(same_bits(before, draws(device(0))));
  EXPECT_TRUE(same_bits(after, draws(device(0))));
  const RandomScope other(generator(6));
  EXPECT_TRUE(same_bits(inner, draws(device(0))));
}

TEST_F(SimRandom, ThreadsTakeTurnsAtADevice) {
  const auto run = [](std::uint64_t seed) {
    const RandomScope scope(generator(seed));
    std::vector<torch::Tensor> all;
    for (int i = 0; i < 50; ++i) all.push_back(draws(device(0)));
    return torch::stack(all);
  };
  const auto one = run(1), two = run(2);
  torch::Tensor one_again, two_again;
  {
    const std::jthread first([&] { one_again = run(1); }), second([&] { two_again = run(2); });
  }
  EXPECT_TRUE(same_bits(one, one_again));
  EXPECT_TRUE(same_bits(two, two_again));
}

}  // namespace random_test
