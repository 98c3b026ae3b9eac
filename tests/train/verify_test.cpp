#include <gtest/gtest.h>
#include <lockstep/verify.h>

#include <atomic>

#include "models.h"

namespace verify_test {

using namespace lockstep;

const MirroredOptions kOptions = {.method = {.optimizer = Adam{}},
                                  .where = {.devices = cpu_devices(4)}};
const VerifyOptions kHow = {.counts = {1, 2, 4}, .steps = 2};

TEST(Verify, SaysEqualForAModelThatIs) {
  const Verification result = verify<models::Attention>(
      kOptions, kHow, [](int step) { return models::sentences(step); }, models::CrossEntropy{});
  EXPECT_TRUE(result.equal) << result.difference;
  EXPECT_EQ(result.difference, "");
}

/// A model that cheats: each replica has a number of its own, from a global counter.
struct Cheat : models::Mlp {
  Cheat() : number(++made) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return Mlp::forward(x) * (number % 2 == 0 ? 1.0 : 1.0 + 1e-6);
  }
  static inline std::atomic<int> made = 0;
  const int number;
};

TEST(Verify, NamesTheFirstDifference) {
  const Verification result = verify<Cheat>(
      kOptions, kHow, [](int step) { return models::vectors(step); }, models::CrossEntropy{});
  EXPECT_FALSE(result.equal);
  EXPECT_NE(result.difference.find("step 0, 2 devices against 1: "), std::string::npos)
      << result.difference;
}

TEST(Verify, FindsOneBitInOneElementAndNamesTheTensor) {
  Mirrored<models::ConvNet> towers({.where = {.devices = cpu_devices(2)}});
  const State a = towers.state();
  for (const auto& [kind, part] :
       {std::pair{"parameter", &State::parameters}, std::pair{"buffer", &State::buffers}}) {
    State b = towers.state();
    auto& [name, tensor] = (b.*part)[1];
    tensor.view(-1)[3] = std::nextafter(tensor.view(-1)[3].item<float>(), 9.F);
    const std::string difference = first_difference(a, b);
    EXPECT_EQ(difference.find(std::string(kind) + " '" + name + "': 1 of "), 0U) << difference;
    EXPECT_NE(difference.find("number 3: "), std::string::npos) << difference;
  }
}

TEST(Verify, TellsZeroFromMinusZero) {
  State a, b;
  a.parameters = {{"w", torch::zeros({2})}};
  b.parameters = {{"w", -torch::zeros({2})}};
  EXPECT_NE(first_difference(a, b), "");
}

TEST(Verify, FindsOtherNumbersOfUpdatesAndParametersThatAreHeld) {
  State a{.updates = 5}, b{.updates = 5};
  a.updates_of = {{"w", 5}};
  EXPECT_EQ(first_difference(a, b), "") << "it is one of all updates";
  b.updates_of = {{"w", 3}};
  EXPECT_EQ(first_difference(a, b), "updates of 'w': 3 instead of 5");
  EXPECT_EQ(first_difference(b, a), "updates of 'w': 5 instead of 3");
  b.updates_of.clear();
  b.held = {"w"};
  EXPECT_NE(first_difference(a, b), "");
}

TEST(Verify, WantsAsManyDevicesAsTheLargestCount) {
  EXPECT_THROW(verify<models::Mlp>(
                   kOptions, {.counts = {1, 5}}, [](int step) { return models::vectors(step); },
                   models::CrossEntropy{}),
               ConfigError);
}

/// Training on batches that end after two steps.
std::unique_ptr<Job> short_job(int devices) {
  static const auto source = [](int step) { return models::vectors(step); };
  return std::make_unique<StrategyJob<Mirrored<models::Mlp>, models::Batch>>(
      std::make_unique<Mirrored<models::Mlp>>(lockstep::detail::options_for(kOptions, devices)),
      std::make_unique<lockstep::detail::BatchBySteps<decltype(source)>>(source, 2),
      models::CrossEntropy{});
}

TEST(Verify, ComparesJobsAndRefusesAnInputThatEndsEarly) {
  int steps = 0;
  const VerifyOptions two{.steps = 2, .progress = [&](int, int) { ++steps; }};
  EXPECT_TRUE(verify(short_job, two).equal);
  EXPECT_EQ(steps, 2);
  EXPECT_THROW(verify(short_job, {.steps = 3}), ConfigError);
}

TEST(Verify, TellsComplexNumbersToo) {
  State a, b;
  a.buffers = {{"phase", torch::full({2}, c10::complex<float>(1, 2))}};
  b.buffers = {{"phase", torch::full({2}, c10::complex<float>(1, 3))}};
  const std::string difference = first_difference(a, b);
  EXPECT_NE(difference.find("(1,3) instead of (1,2)"), std::string::npos) << difference;
}

}  // namespace verify_test
