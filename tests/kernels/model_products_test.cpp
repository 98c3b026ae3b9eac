// The products of an unchanged model, as a tower's scope has them made.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <ATen/autocast_mode.h>
#include <lockstep/kernels/products.h>

#include <functional>

#include "device/random_stream.h"
#include "kernels/product_loops.h"

namespace model_products_test {

using torch::Tensor;

/// Integers, whose products and sums are exact in any order.
Tensor integers(at::IntArrayRef sizes) { return torch::randint(-3, 4, sizes).to(torch::kFloat32); }

template <class Work>
auto in_scope(const Work& work) {
  const lockstep::device::RandomScope scope(at::detail::createCPUGenerator(1));
  return work();
}

Tensor as_leaf(const Tensor& tensor) { return tensor.clone().requires_grad_(); }

/// What `model` makes of `inputs` inside of a scope and outside is equal, gradients too, which have
/// the memory order of their tensors.
void expect_equal(const std::vector<Tensor>& inputs,
                  const std::function<Tensor(const std::vector<Tensor>&)>& model) {
  const auto results = [&] {
    std::vector<Tensor> leaves;
    for (const Tensor& input : inputs) leaves.push_back(as_leaf(input));
    std::vector<Tensor> made = {model(leaves)};
    (made[0] * torch::arange(made[0].numel()).remainder(5).view_as(made[0])).sum().backward();
    for (const Tensor& leaf : leaves)
      if (leaf.grad().defined()) made.push_back(leaf.grad());
    return made;
  };
  const std::vector<Tensor> plain = results(), found = in_scope(results);
  ASSERT_EQ(plain.size(), found.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(torch::equal(plain[i], found[i])) << "tensor " << i;
    EXPECT_EQ(plain[i].strides(), found[i].strides()) << "tensor " << i;
  }
}

TEST(ModelProducts, ALinearLayerHasThemFromOurLoops) {
  torch::manual_seed(1);
  const Tensor x = torch::randn({32, 300}), weight = torch::randn({200, 300});
  const Tensor ours = lockstep::kernels::product(x, weight.t());
  EXPECT_TRUE(torch::equal(in_scope([&] { return torch::linear(x, weight); }), ours));
  // LibTorch rounds in another order.
  EXPECT_NE(torch::equal(torch::linear(x, weight), ours), !!lockstep::kernels::products::loops());
}

TEST(ModelProducts, LayersAndTheirGradientsAreWhatLibTorchMakes) {
  torch::manual_seed(2);
  const Tensor x = integers({40, 90}), weight = integers({70, 90}), bias = integers({70});
  expect_equal({x, weight, bias},
               [](const auto& in) { return torch::linear(in[0], in[1], in[2]); });
  expect_equal({x, weight}, [](const auto& in) { return torch::linear(in[0], in[1]); });
  expect_equal({integers({8, 5, 90}), weight, bias},
               [](const auto& in) { return torch::linear(in[0], in[1], in[2]); });
  expect_equal({x, integers({90, 70})}, [](const auto& in) { return torch::mm(in[0], in[1]); });
  expect_equal({integers({90, 40}), integers({90, 70})},
               [](const auto& in) { return torch::mm(in[0].t(), in[1]); });
  expect_equal({x, weight, integers({40, 70})},
               [](const auto& in) { return torch::addmm(in[2], in[0], in[1].t()); });
  expect_equal({x, weight, bias}, [](const auto& in) {
    return torch::addmm(in[2], in[0], in[1].t(), /*beta=*/2, /*alpha=*/0.5);
  });
  expect_equal({x, weight}, [](const auto& in) { return torch::linear(in[0].detach(), in[1]); });
}

TEST(ModelProducts, ThereAreSecondDerivatives) {
  torch::manual_seed(3);
  const Tensor x = integers({32, 64}), weight = integers({64, 64}), bias = integers({64});
  const auto penalty = [&] {
    const Tensor w = as_leaf(weight), at = as_leaf(x), b = as_leaf(bias);
    const Tensor y = torch::linear(at, w, b);
    const Tensor slope =
        torch::autograd::grad({(y * y).sum()}, {at}, {}, true, /*create_graph=*/true)[0];
    slope.sum().backward();
    return torch::cat({w.grad().flatten(), at.grad().flatten(), b.grad()});
  };
  EXPECT_TRUE(torch::equal(penalty(), in_scope(penalty)));
}

TEST(ModelProducts, ARowIsTheSameInAnyBatch) {
  torch::manual_seed(4);
  const Tensor x = torch::randn({64, 500}), weight = torch::randn({120, 500});
  in_scope([&] {
    const Tensor all = torch::linear(x, weight), part = torch::linear(x.narrow(0, 24, 16), weight);
    EXPECT_TRUE(torch::equal(all.narrow(0, 24, 16), part));
  });
}

TEST(ModelProducts, WhatIsNotPlainStaysLibTorchs) {
  torch::manual_seed(5);
  const Tensor x = torch::randn({64, 128}), weight = torch::randn({128, 128});
  const auto same = [&](const auto& work) { EXPECT_TRUE(torch::equal(work(), in_scope(work))); };
  same([&] { return torch::mm(x.to(torch::kFloat64), weight.to(torch::kFloat64)); });
  same([&] { return torch::mm(x.to(torch::kBFloat16), weight.to(torch::kBFloat16)); });
  same([&] { return torch::mm(x.narrow(0, 0, 4), weight); });  // few rows
  same([&] {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const Tensor result = torch::linear(x, weight);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    EXPECT_EQ(result.scalar_type(), torch::kBFloat16);
    return result;
  });
  in_scope([&] { EXPECT_THROW(torch::mm(x, x), c10::Error); });
}

TEST(ModelProducts, ASideThatChangesBeforeBackwardIsFound) {
  torch::manual_seed(6);
  const Tensor weight = as_leaf(torch::randn({128, 128}));
  const Tensor x = torch::randn({64, 128});
  in_scope([&] {
    const Tensor y = torch::linear(x, weight);
    x.add_(1);
    EXPECT_THROW(y.sum().backward(), c10::Error);
  });
}

}  // namespace model_products_test
