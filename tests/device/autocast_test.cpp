#include "device/autocast.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

namespace autocast_test {

using lockstep::Precision;
using lockstep::device::AutocastScope;
using torch::Tensor;

struct Case {
  Precision precision;
  torch::ScalarType dtype;
};

class Autocast : public ::testing::TestWithParam<Case> {};

TEST_P(Autocast, ProductsTakeFewerBitsAndParametersKeepTheirs) {
  torch::nn::Linear linear(8, 4);
  torch::nn::Conv2d conv(3, 2, 3);
  Tensor product, image;
  {
    const AutocastScope scope(torch::kCPU, GetParam().precision);
    product = linear(torch::rand({5, 8}));
    image = conv(torch::rand({1, 3, 6, 6}));
  }
  EXPECT_EQ(product.scalar_type(), GetParam().dtype);
  EXPECT_EQ(image.scalar_type(), GetParam().dtype);
  (product.sum() + image.sum()).backward();
  for (const auto& parameters : {linear->parameters(), conv->parameters()})
    for (const Tensor& each : parameters) {
      EXPECT_EQ(each.scalar_type(), torch::kFloat);
      EXPECT_EQ(each.grad().scalar_type(), torch::kFloat);
    }
}

TEST_P(Autocast, SeesAnUpdateOfTheWeights) {
  torch::nn::Linear linear(8, 4);
  const Tensor x = torch::rand({5, 8});
  const AutocastScope scope(torch::kCPU, GetParam().precision);
  const Tensor before = linear(x).detach();
  const torch::NoGradGuard no_grad;
  linear->weight.mul_(2);
  EXPECT_FALSE(torch::equal(linear(x), before));
}

INSTANTIATE_TEST_SUITE_P(Precisions, Autocast,
                         ::testing::Values(Case{Precision::float32, torch::kFloat},
                                           Case{Precision::bfloat16, torch::kBFloat16},
                                           Case{Precision::float16, torch::kHalf}));

TEST(AutocastScope, NestsAndBringsBackWhatWas) {
  const Tensor x = torch::rand({4, 4});
  const auto dtype = [&] { return torch::mm(x, x).scalar_type(); };
  const bool cache = at::autocast::is_autocast_cache_enabled();
  const auto default_dtype = at::autocast::get_autocast_dtype(torch::kCPU);
  {
    const AutocastScope outer(torch::kCPU, Precision::bfloat16);
    EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());
    {
      const AutocastScope inner(torch::kCPU, Precision::float16);
      EXPECT_EQ(dtype(), torch::kHalf);
      const AutocastScope none(torch::kCPU, Precision::float32);
      EXPECT_EQ(dtype(), torch::kFloat);
    }
    EXPECT_EQ(dtype(), torch::kBFloat16);
    std::jthread([&] { EXPECT_EQ(dtype(), torch::kFloat); }).join();
  }
  EXPECT_EQ(dtype(), torch::kFloat);
  EXPECT_EQ(at::autocast::is_autocast_cache_enabled(), cache);
  EXPECT_EQ(at::autocast::get_autocast_dtype(torch::kCPU), default_dtype);
}

}  // namespace autocast_test
