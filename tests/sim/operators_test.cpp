#include "sim/on_sim.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <lockstep/error.h>

#include <functional>
#include <sstream>
#include <thread>

namespace operators_test {

namespace F = torch::nn::functional;
using on_sim::device;
using torch::Tensor;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

/// The result of `function` and the gradients of its floating-point arguments.
Tensors with_gradients(const Function& function, const Tensors& inputs, c10::Device on) {
  torch::manual_seed(3);
  Tensors arguments;
  for (const Tensor& input : inputs)
    arguments.push_back(input.detach()
                            .to(on, /*non_blocking=*/false, /*copy=*/true)
                            .set_requires_grad(input.is_floating_point()));
  Tensor result = function(arguments);
  Tensors all{result.detach()};
  if (!result.requires_grad()) return all;
  auto weights = torch::arange(1, result.numel() + 1).to(torch::kFloat).reshape(result.sizes());
  (result.to(torch::kFloat) * weights.div(static_cast<double>(result.numel())).to(on))
      .sum()
      .backward();
  for (const Tensor& argument : arguments)
    if (argument.grad().defined()) all.push_back(argument.grad());
  return all;
}

void expect_as_on_cpu(const Function& function, const Tensors& inputs, double tolerance = 0) {
  lockstep::sim::configure({.devices = 2});
  const auto expected = with_gradients(function, inputs, torch::kCPU);
  const auto found = with_gradients(function, inputs, device(1));
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].device(), device(1));
    ASSERT_EQ(found[i].sizes(), expected[i].sizes());
    const auto moved = found[i].cpu();
    EXPECT_TRUE(tolerance == 0 ? torch::equal(moved, expected[i])
                               : torch::allclose(moved, expected[i], tolerance, tolerance))
        << "output " << i << ", largest difference "
        << (moved - expected[i]).abs().max().item<double>();
  }
}

Tensor random(at::IntArrayRef size) {
  return torch::randn(size, at::make_generator<at::CPUGeneratorImpl>(42));
}

Tensor numbers(std::int64_t below, at::IntArrayRef size) {
  return torch::randint(below, size, at::make_generator<at::CPUGeneratorImpl>(43), torch::kInt64);
}

TEST(Sim, LinearEqualsTheCpuBitForBit) {
  expect_as_on_cpu([](const Tensors& x) { return torch::linear(x[0], x[1], x[2]); },
                   {random({5, 7}), random({3, 7}), random({3})});
}

TEST(Sim, ConvolutionsEqualTheCpuBitForBit) {
  const Tensors inputs{random({2, 4, 9, 9}), random({6, 2, 3, 3}), random({6})};
  expect_as_on_cpu(
      [](const Tensors& x) { return torch::conv2d(x[0], x[1], x[2], 2, 1, 1, /*groups=*/2); },
      inputs);
  expect_as_on_cpu([](const Tensors& x) { return torch::conv_transpose2d(x[0], x[1], x[2], 2, 1); },
                   {random({2, 4, 5, 5}), random({4, 3, 3, 3}), random({3})});
  expect_as_on_cpu([](const Tensors& x) { return torch::conv1d(x[0], x[1]); },
                   {random({2, 3, 11}), random({4, 3, 3})});
}

TEST(Sim, NormalisationEqualsTheCpuBitForBit) {
  expect_as_on_cpu(
      [](const Tensors& x) {
        auto mean = torch::zeros({4}, x[0].device()), var = torch::ones({4}, x[0].device());
        auto y = torch::batch_norm(x[0], x[1], x[2], mean, var, true, 0.1, 1e-5, false);
        return torch::cat({y.flatten(), mean, var});
      },
      {random({3, 4, 5, 5}), random({4}), random({4})});
  expect_as_on_cpu([](const Tensors& x) { return torch::layer_norm(x[0], {6}, x[1], x[2]); },
                   {random({3, 4, 6}), random({6}), random({6})});
  expect_as_on_cpu([](const Tensors& x) { return torch::group_norm(x[0], 2, x[1], x[2]); },
                   {random({3, 4, 6}), random({4}), random({4})});
}

TEST(Sim, EmbeddingEqualsTheCpuBitForBit) {
  expect_as_on_cpu([](const Tensors& x) { return torch::embedding(x[0], x[1]); },
                   {random({10, 4}), numbers(10, {3, 5})});
}

TEST(Sim, AttentionEqualsTheCpuBitForBit) {
  expect_as_on_cpu(
      [](const Tensors& x) {
        const auto scores = torch::bmm(x[0], x[1].transpose(1, 2)).div(2).softmax(-1);
        return torch::bmm(scores, x[2]);
      },
      {random({2, 5, 4}), random({2, 6, 4}), random({2, 6, 3})});
}

// LibTorch takes the path of plain matrix products for other devices than the CPU.
TEST(Sim, ScaledDotProductAttentionIsThatOfTheCpu) {
  for (const bool causal : {false, true})
    expect_as_on_cpu(
        [causal](const Tensors& x) {
          return torch::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, causal);
        },
        {random({2, 2, 5, 8}), random({2, 2, 5, 8}), random({2, 2, 5, 8})}, 1e-5);
}

TEST(Sim, DropoutDrawsTheCpusBits) {
  expect_as_on_cpu([](const Tensors& x) { return torch::dropout(x[0], 0.3, true); },
                   {random({40, 50})});
  expect_as_on_cpu([](const Tensors& x) { return torch::dropout(x[0], 0.3, false); },
                   {random({40, 50})});
}

TEST(Sim, RandomNumbersAreTheCpusForTheSameSeed) {
  lockstep::sim::configure({.devices = 2});
  const auto draw = [](c10::Device on) {
    torch::manual_seed(5);
    return Tensors{torch::randn({50}, on), torch::rand({3}, on), torch::randperm(20, on),
                   torch::randint(9, {8}, on), torch::empty({6}, on).bernoulli_(0.5)};
  };
  const auto expected = draw(torch::kCPU), found = draw(device(0));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(on_sim::same_bits(expected[i], found[i])) << i;
}

TEST(Sim, LossesEqualTheCpuBitForBit) {
  const auto labels = numbers(6, {8});
  expect_as_on_cpu([](const Tensors& x) { return torch::cross_entropy_loss(x[0], x[1]); },
                   {random({8, 6}), labels});
  expect_as_on_cpu(
      [](const Tensors& x) { return torch::nll_loss(torch::log_softmax(x[0], 1), x[1]); },
      {random({8, 6}), labels});
  expect_as_on_cpu([](const Tensors& x) { return torch::mse_loss(x[0], x[1]); },
                   {random({8, 6}), random({8, 6}) + 1});
  expect_as_on_cpu(
      [](const Tensors& x) { return torch::binary_cross_entropy(x[0].sigmoid(), x[1].sigmoid()); },
      {random({8, 6}), random({8, 6}) + 1});
  expect_as_on_cpu([](const Tensors& x) { return torch::smooth_l1_loss(x[0], x[1]); },
                   {random({8, 6}), random({8, 6}) + 1});
}

TEST(Sim, PoolingEqualsTheCpuBitForBit) {
  expect_as_on_cpu([](const Tensors& x) { return torch::max_pool2d(x[0], 2); },
                   {random({2, 3, 8, 8})});
  expect_as_on_cpu([](const Tensors& x) { return torch::avg_pool2d(x[0], 3, 1, 1); },
                   {random({2, 3, 8, 8})});
  expect_as_on_cpu(
      [](const Tensors& x) {
        return torch::adaptive_avg_pool2d(x[0], {2, 2});
      },
      {random({2, 3, 8, 8})});
}

TEST(Sim, IndexingEqualsTheCpuBitForBit) {
  const auto x = random({6, 5});
  const auto rows = numbers(6, {4});
  const std::vector<std::pair<Tensors, Function>> cases{
      {{x},
       [](const Tensors& t) {
         return torch::cat({t[0], t[0]}, 1);
       }},
      {{x},
       [](const Tensors& t) {
         return torch::stack({t[0], t[0].mul(2)});
       }},
      {{x, rows}, [](const Tensors& t) { return t[0].index({t[1]}); }},
      {{x, rows}, [](const Tensors& t) { return t[0].index_select(0, t[1]); }},
      {{x, numbers(6, {2, 5})}, [](const Tensors& t) { return t[0].gather(0, t[1]); }},
      {{x, numbers(6, {6, 5})}, [](const Tensors& t) { return t[0].scatter(0, t[1], 3.0); }},
      {{x, numbers(6, {6, 5}), random({6, 5})},
       [](const Tensors& t) { return t[0].scatter_add(0, t[1], t[2]); }},
      {{x}, [](const Tensors& t) { return std::get<0>(t[0].sort(1)); }},
      {{x}, [](const Tensors& t) { return std::get<0>(t[0].topk(2, 1)); }},
      {{x}, [](const Tensors& t) { return torch::where(t[0] > 0, t[0], t[0] * 0.1); }},
      {{x}, [](const Tensors& t) { return t[0].masked_fill(t[0] > 0, -1); }},
      {{x}, [](const Tensors& t) { return t[0].masked_select(t[0] > 0); }},
      {{x}, [](const Tensors& t) { return t[0].slice(0, 1, 5, 2).t().contiguous(); }},
      {{x}, [](const Tensors& t) { return t[0].cumsum(0).flip(1).roll(2, 0); }},
      {{x}, [](const Tensors& t) { return torch::one_hot(t[0].argmax(1), 5); }},
      {{x}, [](const Tensors& t) { return torch::nonzero(t[0] > 0); }},
      {{x},
       [](const Tensors& t) {
         return F::pad(t[0], F::PadFuncOptions({1, 2}));
       }},
      {{x}, [](const Tensors& t) { return torch::norm(t[0]) + t[0].std(); }},
      {{x},
       [](const Tensors& t) {
         return torch::einsum("ij,kj->ik", {t[0], t[0]});
       }},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    expect_as_on_cpu(cases[i].second, cases[i].first);
  }
}

/// The outputs of a recurrent module with the CPU's weights, and all gradients.
template <class Module, class Options>
void expect_recurrent_as_on_cpu(const Options& options) {
  const auto run = [&](c10::Device on) {
    torch::manual_seed(1);
    Module on_cpu(options);
    Module module = on_cpu;
    if (!on.is_cpu()) {
      const lockstep::device::DeviceScope scope(on);
      module = Module(options);
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < module->parameters().size(); ++i)
        module->parameters()[i].copy_(on_cpu->parameters()[i]);
    }
    const auto input = random({5, 3, 6}).to(on).set_requires_grad(true);
    const auto output = std::get<0>(module->forward(input));
    output.square().sum().backward();
    Tensors all{output.detach().cpu(), input.grad().cpu()};
    for (const auto& parameter : module->parameters()) all.push_back(parameter.grad().cpu());
    return all;
  };
  lockstep::sim::configure({.devices = 1});
  const auto expected = run(torch::kCPU), found = run(device(0));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(torch::allclose(expected[i], found[i], 1e-5, 1e-5)) << i;
}

// Another kernel than the CPU's, hence 1e-5.
TEST(Sim, LstmsAndTheirGradientsAreThoseOfTheCpu) {
  expect_recurrent_as_on_cpu<torch::nn::LSTM>(
      torch::nn::LSTMOptions(6, 4).num_layers(2).bidirectional(true));
  expect_recurrent_as_on_cpu<torch::nn::LSTM>(torch::nn::LSTMOptions(6, 4).bias(false));
}

TEST(Sim, GrusAndTheirGradientsAreThoseOfTheCpu) {
  expect_recurrent_as_on_cpu<torch::nn::GRU>(torch::nn::GRUOptions(6, 4).num_layers(2));
  expect_recurrent_as_on_cpu<torch::nn::GRU>(torch::nn::GRUOptions(6, 4).bias(false));
}

TEST(Sim, FusedOptimizersEqualTheCpuBitForBit) {
  lockstep::sim::configure({.devices = 1});
  const auto run = [](c10::Device on) {
    const auto make = [&](double scale) { return random({100}).mul(scale).to(on); };
    Tensors p{make(1)}, g{make(0.1)}, m{make(0)}, v{make(0)}, s{torch::ones({}, on)};
    at::_fused_adam_(p, g, m, v, {}, s, 1e-2, 0.9, 0.99, 0.01, 1e-8, false, false);
    at::_fused_adamw_(p, g, m, v, {}, s, 1e-2, 0.9, 0.99, 0.01, 1e-8, false, false);
    Tensors momentum{make(0)};
    at::_fused_sgd_(p, g, momentum, 0.01, 0.9, 1e-2, 0, true, false, true);
    Tensors sums{make(0)};
    at::_fused_adagrad_(p, g, sums, s, 1e-2, 0.0, 0.01, 1e-8, false);
    return Tensors{p[0].cpu(), m[0].cpu(), v[0].cpu(), momentum[0].cpu(), sums[0].cpu()};
  };
  const auto expected = run(torch::kCPU), found = run(device(0));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(torch::equal(expected[i], found[i])) << i;
}

TEST(Sim, OutAndInPlaceVariantsWriteTheirArgument) {
  lockstep::sim::configure({.devices = 1});
  const auto x = torch::ones({4}, device(0));
  auto out = torch::empty({0}, device(0));
  torch::add_out(out, x, x);
  EXPECT_TRUE(on_sim::same_bits(out, torch::full({4}, 2.0)));
  auto view = torch::zeros({8}, device(0));
  auto part = view.narrow(0, 2, 4);
  torch::mul_out(part, x, out);
  part.add_(x).clamp_(0, 2.5);
  EXPECT_EQ(view.sum().item<float>(), 10);
  const auto* before = out.data_ptr();
  out.resize_({2, 2});
  EXPECT_EQ(out.data_ptr(), before);
  out.resize_({1000});
  EXPECT_EQ(out[3].item<float>(), 2);
}

TEST(Sim, AParameterCanBeReseatedInAnArena) {
  lockstep::sim::configure({.devices = 1});
  auto parameter = torch::ones({4}, torch::TensorOptions().device(device(0)).requires_grad(true));
  const auto arena = torch::zeros({16}, device(0)), gradients = torch::zeros({16}, device(0));
  parameter.set_data(arena.narrow(0, 8, 4));
  parameter.mutable_grad() = gradients.narrow(0, 8, 4);
  (parameter * 3).sum().backward();
  EXPECT_EQ(gradients.sum().item<float>(), 12);
  EXPECT_EQ(parameter.data_ptr(), arena[8].data_ptr());
}

TEST(Sim, AModuleIsMovedToADeviceAndBackAndLoadedThere) {
  lockstep::sim::configure({.devices = 2});
  torch::nn::Linear linear(3, 4);
  const torch::Tensor weight = linear->weight.detach().clone();
  std::stringstream file;
  torch::save(linear, file);
  for (const torch::Device where : {device(0), device(1), torch::Device(torch::kCPU)}) {
    linear->to(where);
    EXPECT_EQ(linear->weight.device(), where);
    EXPECT_TRUE(linear->weight.requires_grad());
    EXPECT_TRUE(torch::equal(linear->weight.cpu(), weight));
    linear->zero_grad();
    linear(torch::ones({2, 3}, where)).sum().backward();
    EXPECT_EQ(linear->bias.grad().device(), where);
  }
  torch::nn::Linear other(3, 4);
  other->to(device(1));
  torch::load(other, file, device(1));
  EXPECT_EQ(other->weight.device(), device(1));
  EXPECT_TRUE(torch::equal(other->weight.cpu(), weight));
}

TEST(Sim, AutocastLowersMatrixProductsAndKeepsLossesInFloat) {
  lockstep::sim::configure({.devices = 1});
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    at::autocast::set_autocast_enabled(device(0).type(), true);
    at::autocast::set_autocast_dtype(device(0).type(), dtype);
    const auto weight =
        torch::ones({3, 8}, torch::TensorOptions().device(device(0)).requires_grad(true));
    const auto y = torch::linear(torch::ones({2, 8}, device(0)), weight);
    EXPECT_EQ(y.scalar_type(), dtype);
    const auto loss = torch::cross_entropy_loss(y, torch::zeros({2}, torch::kInt64).to(device(0)));
    EXPECT_EQ(loss.scalar_type(), torch::kFloat);
    at::autocast::set_autocast_enabled(device(0).type(), false);
    at::autocast::clear_cache();
    loss.backward();
    EXPECT_EQ(weight.grad().scalar_type(), torch::kFloat);
  }
}

TEST(Sim, ManyThreadsUseManyDevicesAtOnce) {
  lockstep::sim::configure({.devices = 8});
  std::vector<std::thread> towers;
  std::vector<float> sums(8);
  for (int i = 0; i < 8; ++i)
    towers.emplace_back([i, &sums] {
      auto w =
          torch::full({32, 32}, 0.01, torch::TensorOptions().device(device(i)).requires_grad(true));
      for (int step = 0; step < 50; ++step) {
        auto loss = torch::mm(w, w).tanh().sum();
        loss.backward();
        const torch::NoGradGuard no_grad;
        w.sub_(w.grad(), 1e-3);
        w.mutable_grad().zero_();
      }
      sums[static_cast<std::size_t>(i)] = w.sum().item<float>();
    });
  for (auto& tower : towers) tower.join();
  for (const float sum : sums) EXPECT_EQ(sum, sums[0]);
}

TEST(Sim, ASparseTensorIsRefusedInOneSentence) {
  lockstep::sim::configure({.devices = 1});
  const auto indices = torch::zeros({1, 2}, torch::TensorOptions(torch::kLong).device(device(0)));
  const auto values = torch::ones({2}, device(0));
  const std::vector<std::function<void()>> programs = {
      [&] {
        torch::sparse_coo_tensor(indices, values, {3}, values.options().layout(torch::kSparse));
      },
      [&] { values.to_sparse(); }};
  for (const auto& program : programs) try {
      program();
      ADD_FAILURE() << "no error";
    } catch (const lockstep::ConfigError& error) {
      const std::string message = error.what();
      EXPECT_LT(message.size(), 200U) << message;
      EXPECT_NE(message.find("use a dense one"), std::string::npos) << message;
    }
}

}  // namespace operators_test
