// Operators without a kernel on their device run on the CPU.

#include "device/placement.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/placement.h>

#include <array>
#include <thread>

#include "device/device_scope.h"
#include "device/random_stream.h"
#include "device/toy_device.h"

namespace placement_test {

using namespace lockstep;
using torch::Tensor;

class PlacementTest : public ::testing::Test {
 protected:
  PlacementTest() { toy::install(); }
  ~PlacementTest() override { set_placement(Placement::soft); }

  static Tensor there(const Tensor& tensor) { return tensor.to(toy::device); }

  static Fallback entry(const std::string& op) {
    for (const Fallback& each : fallbacks())
      if (each.op == op && each.device == "maia:0") return each;
    return {};
  }

  const Tensor x_ = torch::tensor({0.5F, -0.25F, 0.F});
};

TEST_F(PlacementTest, AResultReturnsToTheDevice) {
  const Tensor y = there(x_).erfinv();
  EXPECT_EQ(y.device(), toy::device);
  EXPECT_TRUE(torch::equal(y.cpu(), x_.erfinv()));
}

TEST_F(PlacementTest, AnOperatorInPlaceWritesToItsTensor) {
  Tensor x = there(x_);
  const void* memory = x.data_ptr();
  const Tensor y = x.erfinv_();
  EXPECT_TRUE(y.is_same(x));
  EXPECT_EQ(x.data_ptr(), memory);
  EXPECT_TRUE(torch::equal(x.cpu(), x_.erfinv()));
  x.add_(x);
  EXPECT_TRUE(torch::equal(x.cpu(), 2 * x_.erfinv()));
}

TEST_F(PlacementTest, AnOutputArgumentIsWrittenAndResized) {
  Tensor out = torch::empty({0}, toy::device);
  const Tensor& result = torch::add_out(out, there(x_), there(x_));
  EXPECT_TRUE(result.is_same(out));
  EXPECT_TRUE(torch::equal(out.cpu(), x_ + x_));
}

TEST_F(PlacementTest, ListsOfTensorsTravelToo) {
  EXPECT_TRUE(torch::equal(torch::cat({there(x_), there(x_)}).cpu(), torch::cat({x_, x_})));
  const Tensor matrix = torch::arange(12.F).view({3, 4}), rows = torch::tensor({2, 0});
  const auto indices = [](const Tensor& tensor) {
    return c10::List<std::optional<Tensor>>({std::nullopt, tensor});
  };
  const Tensor picked = at::index(there(matrix), indices(there(rows)));
  EXPECT_EQ(picked.device(), toy::device);
  EXPECT_TRUE(torch::equal(picked.cpu(), at::index(matrix, indices(rows))));
  const std::vector<Tensor> list = {there(x_), there(x_)};
  at::_foreach_add_(list, 1);
  EXPECT_TRUE(torch::equal(list[1].cpu(), x_ + 1));
}

TEST_F(PlacementTest, AnArgumentOfTheCpuDoesNotChooseTheDevice) {
  const Tensor y = torch::mul(torch::scalar_tensor(2.F), there(x_));
  EXPECT_EQ(y.device(), toy::device);
  EXPECT_TRUE(torch::equal(y.cpu(), 2 * x_));
}

TEST_F(PlacementTest, AFactoryMakesItsTensorOnTheDevice) {
  const device::DeviceScope scope(toy::device);
  const Tensor y = torch::arange(4);
  EXPECT_EQ(y.device(), toy::device);
  EXPECT_TRUE(torch::equal(y.cpu(), torch::arange(4, torch::kCPU)));
  EXPECT_TRUE(torch::equal(torch::tensor({1, 2}).cpu(), torch::tensor({1, 2}).cpu()));
}

TEST_F(PlacementTest, RandomOperatorsRepeatWithTheStream) {
  const auto draw = [](std::uint64_t seed) {
    const device::DeviceScope on_toy(toy::device);
    const device::RandomScope random(at::make_generator<toy::Generator>(seed));
    return std::array{torch::randn({30}).cpu(), torch::rand({30}).cpu(),
                      torch::dropout(torch::ones({30}), 0.5, true).cpu(),
                      torch::rand({30}, torch::kCPU)};
  };
  const auto first = draw(1), again = draw(1), other = draw(2);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(torch::equal(first[i], again[i])) << i;
    EXPECT_FALSE(torch::equal(first[i], other[i])) << i;
  }
  EXPECT_FALSE(torch::equal(first[1], first[3]));
}

struct GradientFromNothing : torch::autograd::Function<GradientFromNothing> {
  static inline std::thread::id thread;

  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    thread = std::this_thread::get_id();
    return {torch::rand({3})};
  }
};

TEST_F(PlacementTest, TheThreadOfABackwardPassIsInTheScopes) {
  const auto gradient = [&] {
    const device::DeviceScope on_toy(toy::device);
    const device::RandomScope random(at::make_generator<toy::Generator>(7));
    const Tensor x = there(x_).requires_grad_();
    (GradientFromNothing::apply(x.erfinv())).sum().backward();
    return x.grad();
  };
  const Tensor first = gradient();
  EXPECT_NE(GradientFromNothing::thread, std::this_thread::get_id());
  EXPECT_EQ(first.device(), toy::device);
  EXPECT_TRUE(torch::equal(first.cpu(), gradient().cpu()));
}

TEST_F(PlacementTest, StrictPlacementNamesOperatorDeviceAndModule) {
  const Tensor weight = there(x_);
  device::TensorNames names;
  names.name(weight, "encoder.weight");
  set_placement(Placement::strict);
  EXPECT_EQ(placement(), Placement::strict);
  try {
    weight.erfinv();
    FAIL() << "ran";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    for (const char* part :
         {"aten::erfinv", "maia:0", "encoder.weight", "the toy has no kernels", "Placement::soft"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST_F(PlacementTest, FallbacksAreCountedByOperatorAndDevice) {
  const std::int64_t before = entry("aten::digamma").count;
  for (int i = 0; i < 3; ++i) there(x_).digamma();
  EXPECT_EQ(entry("aten::digamma").count, before + 3);
  EXPECT_EQ(entry("aten::digamma").reason, "the toy has no kernels");
}

TEST_F(PlacementTest, AnOperatorWithoutAParameterIsInTheModuleSeenLast) {
  const Tensor arena = there(torch::rand({8}));
  const Tensor bias = arena.as_strided({4}, {1}, 4);
  {
    device::TensorNames names;
    names.name(bias, "head.bias");
    bias.lgamma();
    EXPECT_EQ(entry("aten::lgamma").module, "head.bias");
    there(x_).erfinv();
    EXPECT_EQ(entry("aten::erfinv").module, "head.bias");
  }
}

TEST_F(PlacementTest, ThreadsMayFallBackAtOnce) {
  const std::int64_t before = entry("aten::sinc").count;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int k = 0; k < 50; ++k) there(x_).sinc();
      });
  }
  EXPECT_EQ(entry("aten::sinc").count, before + 200);
}

TEST_F(PlacementTest, AViewIsRefused) { EXPECT_THROW(there(x_).unfold(0, 2, 1), ConfigError); }

}  // namespace placement_test
