// What is random, and what several towers share, on devices with a memory of their own.

#include <thread>

#include "on_sim.h"

namespace sim_random_test {

using namespace on_sim;
using models::Noisy;

constexpr int kSteps = 4;

class SimRandom : public testing::Test {
 protected:
  void SetUp() override { sim::configure({.devices = 4}); }
};

class SimBits : public SimRandom {};

models::Batch sentences(int step) { return models::sentences(step); }

TEST_F(SimRandom, EveryKindOfDropoutIsTheSameBitForBitOn1To4Devices) {
  const Trained one = train<Noisy>(options(sim_devices(1)), sentences, kSteps);
  for (const int devices : {2, 3, 4})
    expect_same(one, train<Noisy>(options(sim_devices(devices)), sentences, kSteps),
                std::to_string(devices) + " devices");
}

TEST_F(SimRandom, DropoutIsTheSameWhenTrainingResumes) {
  const Trained whole = train<Noisy>(options(sim_devices(2)), sentences, kSteps);
  State half;
  {
    Mirrored<Noisy> towers(options(sim_devices(3)));
    for (int step = 0; step < 2; ++step) towers.step(sentences(step), models::CrossEntropy{});
    half = towers.state();
  }
  torch::rand({5}, torch::Device("sim:0"));  // a resumed program has drawn other numbers
  Mirrored<Noisy> towers(options(sim_devices(1)));
  towers.load(half);
  for (int step = 2; step < kSteps; ++step) towers.step(sentences(step), models::CrossEntropy{});
  EXPECT_EQ(first_difference(whole.state, towers.state()), "");
}

TEST_F(SimRandom, DropoutIsTheSameWhenADeviceIsLostAndItsShardsAreReplayed) {
  const Trained whole = train<Noisy>(options(sim_devices(3)), sentences, kSteps);
  MirroredOptions how = options(sim_devices(3));
  how.where.on_device_failure = OnDeviceFailure::replay;
  sim::inject({.kind = sim::Fault::Kind::lost, .device = 1, .step = 1, .at = 60});
  Mirrored<Noisy> towers(how);
  std::size_t left = 3;
  for (int step = 0; step < kSteps; ++step)
    left = towers.step(sentences(step), models::CrossEntropy{}).towers.size();
  EXPECT_EQ(left, 2U);
  EXPECT_EQ(first_difference(whole.state, towers.state()), "");
}

TEST_F(SimRandom, AStepLeavesTheDevicesOwnGeneratorAsItWas) {
  const torch::Device device("sim:0");
  Mirrored<Noisy> towers(options(sim_devices(1)));
  const auto draws = [&](bool steps) {
    torch::manual_seed(3);
    const auto first = torch::rand({8}, device).cpu();
    if (steps) towers.step(sentences(0), models::CrossEntropy{});
    return torch::stack({first, torch::rand({8}, device).cpu()});
  };
  EXPECT_TRUE(torch::equal(draws(false), draws(true)));
}

/// Trains two at once on the same devices, each on a thread of its own, and compares each with
/// itself alone.
template <class Model>
void expect_two_at_once(const MirroredOptions& first, const MirroredOptions& second,
                        models::Batch (*source)(int), int steps) {
  const std::vector<MirroredOptions> how = {first, second};
  std::vector<Trained> alone, together(2);
  for (const MirroredOptions& each : how) alone.push_back(train<Model>(each, source, steps));
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 2; ++i)
      threads.emplace_back([&, i] { together[i] = train<Model>(how[i], source, steps); });
  }
  expect_same(alone[0], together[0], "the first");
  expect_same(alone[1], together[1], "the second");
}

TEST_F(SimRandom, TwoTrainingsWithDropoutAtOnceOnTheSameDevicesAreThoseAlone) {
  MirroredOptions first = options(sim_devices(2)), second = first;
  second.method.seed = 8;
  expect_two_at_once<Noisy>(first, second, sentences, 10);
}

/// Sums over many rows, which several threads cut into parts: the gradients of a norm.
struct Long : torch::nn::Module {
  Long() {
    layer = register_module("layer", torch::nn::Linear(6, 40));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({40})));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::tanh(norm(layer(x))).unflatten(1, {2, 20}).mean(2);
  }
  torch::nn::Linear layer = nullptr;
  torch::nn::LayerNorm norm = nullptr;
};

models::Batch long_rows(int step) {
  auto random = models::generator(step);
  return {torch::randn({40000, 6}, random), torch::randint(2, {40000}, random, torch::kInt64)};
}

TEST_F(SimBits, TwoTrainingsAtOnceOnTheSameDevicesKeepTheirIntraOpThreads) {
  const auto with_threads = [](int threads) {
    MirroredOptions how = options(sim_devices(2));
    how.method.shards = 2;
    for (Device& device : how.where.devices) device.threads = threads;
    return how;
  };
  const auto one = train<Long>(with_threads(1), long_rows, 1);
  const auto three = train<Long>(with_threads(3), long_rows, 1);
  ASSERT_NE(first_difference(one.state, three.state), "")
      << "threads must show, or nothing is tested";
  expect_two_at_once<Long>(with_threads(1), with_threads(3), long_rows, 12);
}

/// Rows of 40 bytes: a shard rarely begins where LibTorch's memory would.
struct Narrow : torch::nn::Module {
  Narrow() {
    first = register_module("first", torch::nn::Linear(10, 17));
    second = register_module("second", torch::nn::Linear(17, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::relu(first(x))); }
  torch::nn::Linear first = nullptr, second = nullptr;
};

models::Batch narrow_rows(int step) {
  auto random = models::generator(step);
  return {torch::randn({13, 10}, random), torch::randint(5, {13}, random, torch::kInt64)};
}

TEST_F(SimBits, RowsOf40BytesGiveTheCpusBits) {
  MirroredOptions cpu = options(cpu_devices(2)), sim = options(sim_devices(3));
  cpu.method.shards = sim.method.shards = 4;
  expect_same(train<Narrow>(cpu, narrow_rows, kSteps), train<Narrow>(sim, narrow_rows, kSteps),
              "3 simulated devices");
}

/// The same rows, `floats` floats after an address that is a multiple of 64 bytes.
models::Batch moved(const models::Batch& batch, std::int64_t floats) {
  const auto memory = torch::empty({batch.first.numel() + floats});
  const auto rows = memory.narrow(0, floats, batch.first.numel()).view(batch.first.sizes());
  rows.copy_(batch.first);
  return {rows, batch.second};
}

TEST_F(SimBits, WhereABatchLiesInMemoryDoesNotChangeABit) {
  MirroredOptions how = options(cpu_devices(2));
  how.method.shards = 4;
  const auto expected = train<Narrow>(how, narrow_rows, kSteps);
  for (const int floats : {1, 2, 3, 4, 7, 15})
    expect_same(expected,
                train<Narrow>(
                    how, [&](int step) { return moved(narrow_rows(step), floats); }, kSteps),
                std::to_string(floats) + " floats further");
}

TEST_F(SimBits, WhereABatchLiesInMemoryDoesNotChangeAnEvaluation) {
  Mirrored<Narrow> towers(options(cpu_devices(2)));
  const auto metric = [](Narrow& net, const models::Batch& batch) {
    return Mean{net.forward(batch.first).to(torch::kFloat64).pow(2).sum().item<double>(), 1};
  };
  const auto value = [&](int floats) {
    std::vector<models::Batch> batches;
    for (int i = 0; i < 8; ++i) {
      auto [rows, targets] = narrow_rows(i);
      batches.push_back(moved({rows.narrow(0, 0, 3), targets.narrow(0, 0, 3)}, floats));
    }
    return towers.evaluate(batches, metric).value();
  };
  for (const int floats : {1, 2, 3}) EXPECT_EQ(value(0), value(floats)) << floats;
}

struct SparseNet : torch::nn::Module {
  SparseNet() {
    embedding = register_module(
        "embedding", torch::nn::Embedding(torch::nn::EmbeddingOptions(20, 8).sparse(true)));
    output = register_module("output", torch::nn::Linear(8, 20));
  }
  torch::Tensor forward(const torch::Tensor& tokens) { return output(embedding(tokens)); }
  torch::nn::Embedding embedding = nullptr;
  torch::nn::Linear output = nullptr;
};

TEST_F(SimBits, ASparseEmbeddingTrainsToTheCpusBits) {
  expect_same(train<SparseNet>(options(cpu_devices(1)), sentences, kSteps),
              train<SparseNet>(options(sim_devices(3)), sentences, kSteps), "3 simulated devices");
}

TEST_F(SimBits, TowersOffGpusLeaveLibTorchsSettingsAlone) {
  const at::Context& context = at::globalContext();
  train<Narrow>(options(cpu_devices(1)), narrow_rows, 1);
  train<Narrow>(options(sim_devices(2)), narrow_rows, 1);
  EXPECT_FALSE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicCuDNN());
}

}  // namespace sim_random_test
