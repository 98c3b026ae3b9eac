#include "models.h"
#include "sim/on_sim.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

namespace training_test {

using on_sim::device;

/// Three steps of Adam; returns the parameters.
template <class Model>
std::vector<torch::Tensor> trained(c10::Device on, models::Batch (*batch)(int, int)) {
  auto model = on_sim::make<Model>(on);
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  torch::manual_seed(7);
  for (int step = 0; step < 3; ++step) {
    auto [input, target] = batch(step, 16);
    optimizer.zero_grad();
    models::CrossEntropy{}(*model, {input.to(on), target.to(on)}).backward();
    optimizer.step();
  }
  return model->parameters();
}

template <class Model>
void expect_same_training(models::Batch (*batch)(int, int), double tolerance) {
  lockstep::sim::configure({.devices = 2});
  const auto expected = trained<Model>(torch::kCPU, batch);
  for (int index = 0; index < 2; ++index) {
    const auto found = trained<Model>(device(index), batch);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found[i].device(), device(index));
      EXPECT_TRUE(tolerance == 0 ? on_sim::same_bits(expected[i], found[i])
                                 : torch::allclose(expected[i], found[i].cpu(), 0, tolerance))
          << "parameter " << i << "\n"
          << (expected[i] - found[i].cpu()).abs().max();
    }
  }
}

// LibTorch starts the threads of backward once, for the devices known then.
TEST(Sim, BackwardWorksOnDevicesMadeAfterTheFirstBackward) {
  torch::ones({2}, torch::requires_grad()).sum().backward();
  for (const int devices : {1, 5, 2}) {
    lockstep::sim::configure({.devices = devices});
    const auto x =
        torch::ones({2}, torch::TensorOptions().device(device(devices - 1)).requires_grad(true));
    x.square().sum().backward();
    EXPECT_EQ(x.grad().sum().item<float>(), 4);
  }
}

/// The gradient of a sum over many rows, which intra-op threads cut into parts.
torch::Tensor gradient_with(int threads, const std::function<void()>& in_backward) {
  at::set_num_threads(threads);
  torch::manual_seed(5);
  const auto rows = torch::randn({40000, 6}).to(device(0));
  const auto weight = torch::full({6, 40}, 0.1, torch::requires_grad().device(device(0)));
  const auto output = torch::tanh(rows.mm(weight));
  output.register_hook([&](const torch::Tensor&) { in_backward(); });
  output.sum().backward();
  return weight.grad().cpu();
}

TEST(Sim, BackwardHasTheIntraOpThreadsOfItsCallerWhateverAnotherThreadDoes) {
  lockstep::sim::configure({.devices = 1});
  const int before = at::get_num_threads();
  const auto one = gradient_with(1, [] {}), three = gradient_with(3, [] {});
  ASSERT_FALSE(torch::equal(one, three)) << "threads must show, or nothing is tested";
  const auto disturbed = gradient_with(3, [] {
    std::jthread([] {
      at::set_num_threads(1);
      torch::ones({4}, device(0)).add(1);
    }).join();
  });
  EXPECT_TRUE(torch::equal(three, disturbed));
  at::set_num_threads(before);
}

TEST(Sim, DevicesAreKnownByName) {
  lockstep::sim::configure({.devices = 2});
  EXPECT_EQ(c10::Device("sim:1"), device(1));
  EXPECT_EQ(device(1).str(), "sim:1");
  EXPECT_ANY_THROW(torch::empty({1}, c10::Device("sim:2")));
}

TEST(Sim, AnMlpTrainsToTheSameBitsAsOnTheCpu) {
  expect_same_training<models::Mlp>(models::vectors, 0);
}

TEST(Sim, AConvNetTrainsToTheSameBitsAsOnTheCpu) {
  expect_same_training<models::ConvNet>(models::images, 0);
}

TEST(Sim, TiedEmbeddingsTrainToTheSameBitsAsOnTheCpu) {
  expect_same_training<models::Tied>(models::sentences, 0);
}

// The LSTM takes another kernel than on the CPU, hence the tolerance; Adam divides by the size of
// the gradient, so weights differ by more than the gradients do.
TEST(Sim, AnLstmWithAttentionTrainsAsOnTheCpu) {
  expect_same_training<models::Attention>(models::sentences, 1e-4);
}

}  // namespace training_test
