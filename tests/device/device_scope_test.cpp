// A device for unchanged models, shown on the device "meta", which needs no hardware.

#include "device/device_scope.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cstdio>
#include <thread>

#include "device/random_stream.h"

namespace device_scope_test {

using lockstep::device::DeviceScope;
using lockstep::device::RandomScope;
using torch::kCPU;
using torch::kMeta;
using torch::Tensor;

const c10::Device meta(kMeta);

at::Generator generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

/// Every way of C++ to make a tensor from nothing, none of which names a device.
std::vector<Tensor> made_without_a_device() {
  return {torch::zeros({2}),
          torch::zeros({2}, torch::kLong),
          torch::zeros({2}, torch::requires_grad()),
          torch::zeros({2}, torch::TensorOptions().dtype(torch::kDouble).requires_grad(true)),
          torch::zeros({2}, torch::kStrided),
          at::zeros({2}),
          at::zeros({2}, torch::kInt),
          at::zeros({2}, torch::kInt, std::nullopt, std::nullopt, std::nullopt),
          torch::ones({2, 3}),
          torch::empty({2}),
          torch::empty({2, 3, 4, 5}, {}, torch::MemoryFormat::ChannelsLast),
          torch::empty_strided({2, 2}, {1, 2}),
          torch::full({2}, 3.5),
          torch::eye(3),
          torch::arange(5),
          torch::arange(1, 5),
          torch::arange(0, 1, 0.25),
          torch::linspace(0, 1, 5),
          torch::logspace(0, 1, 5),
          torch::hann_window(8),
          torch::scalar_tensor(3),
          torch::rand({2}),
          torch::randn({2}),
          torch::randint(9, {2}),
          torch::randint(3, 9, {2}, torch::kLong),
          torch::normal(0, 1, {2})};
}

std::vector<Tensor> literals() {
  return {torch::tensor(3),
          torch::tensor(2.5, torch::kDouble),
          torch::tensor({1, 2, 3}),
          torch::tensor({{1.0, 2.0}, {3.0, 4.0}}),
          torch::tensor({true, false}),
          torch::tensor({1, 2}, torch::kFloat),
          torch::tensor({1.0, 2.0}, torch::requires_grad()),
          torch::tensor(std::vector<float>{1, 2}),
          torch::tensor(std::vector<std::int64_t>{1, 2}, torch::kDouble),
          torch::tensor(at::ArrayRef<double>{1, 2})};
}

TEST(DeviceScope, FactoriesWithoutADeviceMakeTheirTensorOnTheScopes) {
  const std::vector<Tensor> outside = made_without_a_device();
  const DeviceScope scope(meta);
  const std::vector<Tensor> inside = made_without_a_device();
  for (std::size_t i = 0; i < inside.size(); ++i) {
    EXPECT_TRUE(outside[i].is_cpu()) << i;
    EXPECT_TRUE(inside[i].is_meta()) << i;
    EXPECT_EQ(inside[i].dtype(), outside[i].dtype()) << i;
    EXPECT_EQ(inside[i].sizes(), outside[i].sizes()) << i;
    EXPECT_EQ(inside[i].strides(), outside[i].strides()) << i;
    EXPECT_EQ(inside[i].requires_grad(), outside[i].requires_grad()) << i;
  }
}

TEST(DeviceScope, LiteralsAreMadeOnTheScopes) {
  const std::vector<Tensor> outside = literals();
  const DeviceScope scope(meta);
  const std::vector<Tensor> inside = literals();
  for (std::size_t i = 0; i < inside.size(); ++i) {
    EXPECT_TRUE(outside[i].is_cpu()) << i;
    EXPECT_TRUE(inside[i].is_meta()) << i;
    EXPECT_EQ(inside[i].dtype(), outside[i].dtype()) << i;
    EXPECT_EQ(inside[i].sizes(), outside[i].sizes()) << i;
    EXPECT_EQ(inside[i].requires_grad(), outside[i].requires_grad()) << i;
  }
}

TEST(DeviceScope, ADeviceThatIsNamedIsRespected) {
  const DeviceScope scope(meta);
  EXPECT_TRUE(torch::zeros({2}, kCPU).is_cpu());
  EXPECT_TRUE(torch::zeros({2}, torch::device(kCPU).dtype(torch::kLong)).is_cpu());
  EXPECT_TRUE(at::empty({2}, kCPU).is_cpu());
  EXPECT_TRUE(torch::randn({2}, kCPU).is_cpu());
  EXPECT_TRUE(torch::scalar_tensor(1, kCPU).is_cpu());
  EXPECT_TRUE(torch::empty({2}, kCPU).to(torch::kDouble).is_cpu());
  EXPECT_TRUE(at::empty({2}, kCPU).to(kCPU).is_cpu());
  const DeviceScope inner(kCPU);
  EXPECT_TRUE(torch::zeros({2}, kMeta).is_meta());
}

TEST(DeviceScope, TensorsThatFollowAnotherStayWithIt) {
  const Tensor x = torch::ones({2});
  const DeviceScope scope(meta);
  for (const Tensor& each : {torch::zeros_like(x), torch::rand_like(x), torch::empty_like(x),
                             x.new_zeros({3}), x.new_full({2}, 1), torch::full_like(x, 2),
                             x.to(torch::kDouble), x.clone(), x.contiguous()})
    EXPECT_TRUE(each.is_cpu());
}

TEST(DeviceScope, MemoryOfTheHostStaysOnTheHost) {
  const DeviceScope scope(meta);
  std::array<float, 4> numbers = {1, 2, 3, 4};
  const Tensor blob = torch::from_blob(numbers.data(), {4});
  EXPECT_TRUE(blob.is_cpu());
  EXPECT_EQ(blob.data_ptr(), numbers.data());
  EXPECT_TRUE(blob.to(torch::kDouble).is_cpu());
  EXPECT_TRUE(blob.clone().is_cpu());

  const std::string path = ::testing::TempDir() + "device_scope_test.bin";
  EXPECT_TRUE(torch::from_file(path, /*shared=*/true, /*size=*/4).is_cpu());
  std::remove(path.c_str());
}

TEST(DeviceScope, WhatLibTorchFillsByHandStaysOnTheHost) {
  const DeviceScope scope(meta);
  const Tensor list = at::tensor({1.5, 2.5});
  EXPECT_TRUE(list.is_cpu());
  EXPECT_EQ(list[1].item<double>(), 2.5);
  EXPECT_EQ(at::tensor(7).item<int>(), 7);
  EXPECT_TRUE(at::empty({2, 3}).is_meta());
  EXPECT_TRUE(at::empty({2}).is_meta());
  const torch::InferenceMode inference;
  EXPECT_EQ(at::tensor({1, 2})[1].item<int>(), 2);
  EXPECT_TRUE(torch::tensor({1, 2}).is_meta());
}

TEST(DeviceScope, PinnedMemoryStaysOnTheHost) {
  const DeviceScope scope(meta);
  try {
    EXPECT_TRUE(torch::empty({2}, torch::TensorOptions().pinned_memory(true)).is_cpu());
  } catch (const c10::Error& error) {  // without an accelerator there is no pinned memory
    EXPECT_EQ(std::string(error.what()).find("meta"), std::string::npos) << error.what();
  }
}

TEST(DeviceScope, NumbersInExpressionsStayNumbers) {
  const Tensor x = torch::tensor({1.F, -2.F, 3.F}), mask = x > 0;
  const auto formulas = [&] {
    return std::vector<Tensor>{x + 1,
                               2 * x,
                               1 / x,
                               x.pow(2),
                               x.clamp(0, 1),
                               x.masked_fill(mask, 7),
                               torch::where(mask, x, 0),
                               torch::where(mask, 1.5, 0.5),
                               torch::add(x, 1, 2),
                               x.index_put({mask}, torch::tensor(5.F, kCPU)),
                               x.index({torch::indexing::Slice(0, 2)}),
                               torch::lerp(x, x + 1, 0.5),
                               torch::nan_to_num(x),
                               x.softmax(0),
                               torch::cumsum(x, 0),
                               std::get<0>(x.max(0))};
  };
  const std::vector<Tensor> outside = formulas();
  const DeviceScope scope(meta);
  const std::vector<Tensor> inside = formulas();
  for (std::size_t i = 0; i < inside.size(); ++i)
    EXPECT_TRUE(torch::equal(inside[i], outside[i])) << i;
}

TEST(DeviceScope, AModuleIsConstructedAndRunsOnTheScopes) {
  const DeviceScope scope(meta);
  const torch::nn::BatchNorm1d norm(8);
  for (const Tensor& each : norm->buffers()) EXPECT_TRUE(each.is_meta());
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::Dropout(0.5),
                            torch::nn::Linear(8, 3));
  for (const Tensor& each : net->parameters()) EXPECT_TRUE(each.is_meta());
  const Tensor y = net->forward(torch::zeros({2, 4}));
  EXPECT_TRUE(y.is_meta());
  y.sum().backward();
  EXPECT_TRUE(net->parameters().front().grad().is_meta());
}

TEST(DeviceScope, WhatAnOperatorMakesInsideIsItsOwnAffair) {
  torch::Library library(torch::Library::DEF, "device_scope_test", std::nullopt, __FILE__,
                         __LINE__);
  library.def("inner() -> Tensor", [] { return at::zeros({2}); });
  const auto inner = c10::Dispatcher::singleton()
                         .findSchemaOrThrow("device_scope_test::inner", "")
                         .typed<Tensor()>();
  const DeviceScope scope(meta);
  EXPECT_TRUE(inner.call().is_cpu());
  EXPECT_TRUE(at::zeros({2}).is_meta());
}

struct GradientFromNothing : torch::autograd::Function<GradientFromNothing> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    return {torch::full({2}, 3.F)};
  }
};

TEST(DeviceScope, ReachesTheModelsOwnBackward) {
  const DeviceScope scope(meta);
  const Tensor x = torch::ones({2}, torch::requires_grad());
  GradientFromNothing::apply(x).sum().backward();
  EXPECT_TRUE(x.grad().is_meta());
}

TEST(DeviceScope, ScopesNestAndEnd) {
  {
    const DeviceScope outer(meta);
    {
      const DeviceScope inner(kCPU);
      EXPECT_TRUE(torch::zeros({2}).is_cpu());
      const DeviceScope innermost(meta);
      EXPECT_TRUE(torch::zeros({2}).is_meta());
    }
    EXPECT_TRUE(torch::zeros({2}).is_meta());
  }
  EXPECT_TRUE(torch::zeros({2}).is_cpu());
  EXPECT_TRUE(torch::tensor({1, 2}).is_cpu());
}

TEST(DeviceScope, OtherThreadsAreNotInTheScope) {
  const DeviceScope scope(meta);
  Tensor made;
  std::jthread([&] { made = torch::zeros({2}); }).join();
  EXPECT_TRUE(made.is_cpu());
}

TEST(DeviceScope, GoesTogetherWithARandomStream) {
  const DeviceScope device(kCPU);
  const RandomScope random(generator(5));
  EXPECT_TRUE(torch::equal(torch::randn({20}), torch::randn({20}, generator(5))));
  const DeviceScope on_meta(meta);
  EXPECT_TRUE(torch::randn({2}).is_meta());
  EXPECT_TRUE(torch::equal(torch::rand({9}, kCPU), [] {
    auto stream = generator(5);
    torch::randn({20}, stream, kCPU);
    return torch::rand({9}, stream, kCPU);
  }()));
}

}  // namespace device_scope_test
