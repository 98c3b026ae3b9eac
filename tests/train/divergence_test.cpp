// A training that diverges leaves checkpoints to go back to, and no others.

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/trainer.h>

#include <limits>

#include "train/recorder.h"
#include "train/small_job.h"

namespace divergence_test {

using namespace lockstep;
using lockstep::testing::new_folder;
using lockstep::testing::Recorder;
using lockstep::testing::SmallJob;
using lockstep::testing::steps_in;

/// Saves at step 3; after step 5 a weight becomes `value`. Returns the error that ended it.
std::exception_ptr train_with(float value, const std::string& folder, std::int64_t steps) {
  const auto job = SmallJob{.sets = {}}.make();
  Recorder recorder;
  recorder.on_step = [&](const TrainingProgress& progress) {
    const torch::NoGradGuard no_gradients;
    if (progress.step == 5) job->strategy().module().parameters().front().flatten()[0] = value;
  };
  try {
    Trainer(*job, {.limits = {.steps = steps}, .folder = folder, .save = {.steps = 3}}, {&recorder})
        .run();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

TEST(Divergence, WhatLedToALossThatIsNoNumberIsNotSaved) {
  const std::string folder = new_folder("diverged");
  const auto error = train_with(std::numeric_limits<float>::quiet_NaN(), folder, 10);
  EXPECT_TRUE(is_non_finite(error));
  EXPECT_EQ(steps_in(folder), std::vector<std::int64_t>{3});
}

TEST(Divergence, WeightsThatAreNotFiniteAreNotSaved) {
  const std::string folder = new_folder("poisoned");
  const auto error = train_with(std::numeric_limits<float>::infinity(), folder, 5);
  ASSERT_TRUE(is_non_finite(error));
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& told) {
    EXPECT_NE(std::string(told.what()).find("after step 5 'one.weight' is infinite"),
              std::string::npos)
        << told.what();
  }
  EXPECT_EQ(steps_in(folder), std::vector<std::int64_t>{3});
}

TEST(Divergence, IsToldFromOtherFailures) {
  const auto thrown = [](auto error) { return std::make_exception_ptr(error); };
  const auto cause = thrown(NonFiniteError("the loss is nan"));
  EXPECT_TRUE(is_non_finite(cause));
  EXPECT_TRUE(is_non_finite(thrown(TowerError("cpu:0", 3, 1, "forward", cause))));
  EXPECT_FALSE(is_non_finite(thrown(ConfigError("nan"))));
  EXPECT_FALSE(is_non_finite(
      thrown(TowerError("cpu:0", 3, 1, "forward", thrown(std::runtime_error("a disk"))))));
  EXPECT_FALSE(is_non_finite(nullptr));
}

}  // namespace divergence_test
