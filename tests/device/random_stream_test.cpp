// Random streams of one's own for unchanged models.

#include "device/random_stream.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <barrier>
#include <set>
#include <thread>

namespace random_stream_test {

using lockstep::device::RandomScope;
using lockstep::device::stream_seed;
using Draws = std::vector<torch::Tensor>;

at::Generator generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

torch::Tensor default_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

bool same(const Draws& a, const Draws& b) {
  bool result = a.size() == b.size();
  for (std::size_t i = 0; result && i < a.size(); ++i) result = torch::equal(a[i], b[i]);
  return result;
}

/// A two-layer LSTM with dropout between the layers; its weights come from the current stream too.
torch::Tensor lstm() {
  torch::nn::LSTM net(torch::nn::LSTMOptions(6, 8).num_layers(2).dropout(0.5));
  return std::get<0>(net(torch::ones({5, 3, 6})));
}

Draws draw_everything() {
  return {torch::randn({3, 50}),
          torch::rand({70}),
          torch::rand_like(torch::empty({4, 30})),
          torch::randperm(100),
          torch::randint(1000, {40}),
          torch::dropout(torch::ones({200}), 0.5, /*train=*/true),
          torch::nn::Dropout(0.3)(torch::ones({200})),
          torch::empty({33}).uniform_(),
          torch::bernoulli(torch::full({90}, 0.5)),
          torch::normal(0, 1, {25}),
          torch::multinomial(torch::ones({30}), 10),
          lstm()};
}

Draws draw_from(std::uint64_t seed) {
  const RandomScope scope(generator(seed));
  return draw_everything();
}

TEST(RandomStream, TwoThreadsAtWorkRepeatEveryOperatorExactly) {
  const std::array<Draws, 2> expected = {draw_from(11), draw_from(22)};
  std::array<int, 2> equal = {};
  std::barrier together(2);
  const auto work = [&](std::size_t thread) {
    for (int round = 0; round < 20; ++round) {
      together.arrive_and_wait();
      equal[thread] += same(draw_from(thread == 0 ? 11 : 22), expected[thread]);
    }
  };
  { const std::jthread first(work, 0), second(work, 1); }
  EXPECT_EQ(equal[0], 20);
  EXPECT_EQ(equal[1], 20);
}

TEST(RandomStream, EveryOperatorDrawsFromTheSeed) {
  const Draws a = draw_from(1), b = draw_from(2);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_FALSE(torch::equal(a[i], b[i])) << "draw " << i;
}

TEST(RandomStream, DrawsEqualThoseOfAnExplicitGenerator) {
  torch::Tensor inside;
  {
    const RandomScope scope(generator(5));
    inside = torch::randn({40});
  }
  EXPECT_TRUE(torch::equal(inside, torch::randn({40}, generator(5))));
}

TEST(RandomStream, SeedStepAndShardEachChangeTheStream) {
  std::set<std::uint64_t> seeds;
  for (const std::uint64_t seed : {0, 1, 2, 3})
    for (const std::int64_t step : {-2, -1, 0, 1, 2, 1000})
      for (const std::int64_t shard : {0, 1, 2, 7}) seeds.insert(stream_seed(seed, step, shard));
  EXPECT_EQ(seeds.size(), 4U * 6U * 4U);
  EXPECT_EQ(stream_seed(1, 2, 3), stream_seed(1, 2, 3));
}

TEST(RandomStream, NeighbouringShardsDrawDifferentNumbers) {
  const auto numbers = [](std::int64_t step, std::int64_t shard) {
    const RandomScope scope(generator(stream_seed(7, step, shard)));
    return torch::rand({1000});
  };
  for (const auto& other : {numbers(0, 1), numbers(1, 0), numbers(1, 1)})
    EXPECT_LT((numbers(0, 0) == other).sum().item<std::int64_t>(),
              5);  // 24-bit draws: 6e-5 expected
}

TEST(RandomStream, AScopeLeavesTheDefaultGeneratorAlone) {
  torch::manual_seed(3);
  const torch::Tensor before = default_state();
  draw_from(9);
  EXPECT_TRUE(torch::equal(before, default_state()));
}

TEST(RandomStream, OutsideAScopeTheThreadDrawsFromTheDefaultGenerator) {
  torch::manual_seed(3);
  const torch::Tensor expected = torch::randn({20});
  draw_from(9);
  torch::manual_seed(3);
  EXPECT_TRUE(torch::equal(torch::randn({20}), expected));
}

TEST(RandomStream, OtherThreadsAreNotInTheScope) {
  torch::manual_seed(3);
  const torch::Tensor expected = torch::randn({20});
  torch::manual_seed(3);
  const RandomScope scope(generator(9));
  torch::Tensor drawn;
  std::jthread([&] { drawn = torch::randn({20}); }).join();
  EXPECT_TRUE(torch::equal(drawn, expected));
}

TEST(RandomStream, ScopesNestAndTheOuterStreamGoesOn) {
  Draws plain, nested;
  {
    const RandomScope outer(generator(1));
    plain = {torch::rand({10}), torch::rand({10})};
  }
  torch::Tensor inside;
  {
    const RandomScope outer(generator(1));
    nested.push_back(torch::rand({10}));
    {
      const RandomScope inner(generator(2));
      inside = torch::rand({10});
    }
    nested.push_back(torch::rand({10}));
  }
  EXPECT_TRUE(same(plain, nested));
  EXPECT_TRUE(torch::equal(inside, torch::rand({10}, generator(2))));
}

TEST(RandomStream, AScopeEndsWithAnException) {
  torch::manual_seed(3);
  const torch::Tensor expected = torch::randn({20});
  torch::manual_seed(3);
  try {
    const RandomScope scope(generator(9));
    throw std::runtime_error("a model failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(torch::equal(torch::randn({20}), expected));
}

TEST(RandomStream, AnExplicitGeneratorIsRespected) {
  const RandomScope scope(generator(1));
  auto own = generator(5);
  const torch::Tensor drawn = torch::rand({30}, own);
  EXPECT_TRUE(torch::equal(drawn, torch::rand({30}, generator(5))));
  EXPECT_TRUE(torch::equal(torch::rand({30}), torch::rand({30}, generator(1))));
}

TEST(RandomStream, AStreamCanGoOnInALaterScope) {
  const at::Generator stream = generator(4);
  Draws pieces;
  for (int i = 0; i < 2; ++i) {
    const RandomScope scope(stream);
    pieces.push_back(torch::rand({16}));
  }
  auto whole = generator(4);
  EXPECT_TRUE(same(pieces, {torch::rand({16}, whole), torch::rand({16}, whole)}));
}

TEST(RandomStream, GradientsOfDropoutUseTheMaskOfTheForwardPass) {
  const RandomScope scope(generator(6));
  const torch::Tensor x = torch::ones({100}, torch::requires_grad());
  const torch::Tensor y = torch::dropout(x, 0.5, /*train=*/true);
  y.sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), y.detach()));  // both are the mask times 2
  EXPECT_GT((y == 0).sum().item<std::int64_t>(), 0);
}

}  // namespace random_stream_test
