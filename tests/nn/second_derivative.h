#pragma once

// Second derivatives by autograd against differences of first ones.

#include <gtest/gtest.h>
#include <torch/torch.h>

/// `loss(x)` is a scalar, x of double precision. Compares the change of its gradient along a random
/// direction. Differences over 1e-5 have an error of about 1e-9 for numbers of about 1.
template <class Loss>
void expect_second_derivative(const Loss& loss, const torch::Tensor& at) {
  using torch::Tensor;
  const Tensor direction = torch::randn_like(at);
  const auto gradient = [&](const Tensor& x, bool create_graph) {
    return torch::autograd::grad({loss(x)}, {x}, {}, create_graph, create_graph)[0];
  };
  const Tensor x = at.detach().clone().requires_grad_();
  const Tensor product = (gradient(x, true) * direction).sum();
  const Tensor found = torch::autograd::grad({product}, {x})[0];
  const auto beside = [&](double distance) {
    return gradient((at + distance * direction).detach().requires_grad_(), false);
  };
  const Tensor expected = (beside(1e-5) - beside(-1e-5)) / 2e-5;
  EXPECT_GT(expected.abs().max().item<double>(), 1e-3);
  EXPECT_LE((found - expected).abs().max().item<double>(), 1e-6);
}
