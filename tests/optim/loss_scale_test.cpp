#include "optim/loss_scale.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>

namespace loss_scale_test {

using lockstep::ConfigError;
using lockstep::LossScaling;
using lockstep::optim::LossScale;

TEST(LossScale, HalvesOnOverflowButNotBelowOne) {
  LossScale scale(LossScaling{.initial = 4});
  for (const double expected : {2.0, 1.0, 1.0}) {
    scale.update(/*overflow=*/true);
    EXPECT_EQ(scale.value(), expected);
  }
}

TEST(LossScale, DoublesAfterAnIntervalOfGoodStepsInARow) {
  LossScale scale(LossScaling{.initial = 8, .growth_interval = 3});
  const auto good = [&](int steps) {
    for (int i = 0; i < steps; ++i) scale.update(/*overflow=*/false);
    return scale.value();
  };
  EXPECT_EQ(good(2), 8);
  EXPECT_EQ(good(1), 16);
  EXPECT_EQ(good(2), 16);
  scale.update(/*overflow=*/true);
  EXPECT_EQ(good(2), 8);
  EXPECT_EQ(good(1), 16);
}

TEST(LossScale, StopsGrowingAt2ToThe24) {
  LossScale scale(LossScaling{.initial = 8388608, .growth_interval = 1});
  for (int i = 0; i < 3; ++i) scale.update(/*overflow=*/false);
  EXPECT_EQ(scale.value(), 16777216);
}

TEST(LossScale, GoesOnFromItsState) {
  LossScale first(LossScaling{.growth_interval = 3});
  first.update(/*overflow=*/false);
  first.update(/*overflow=*/false);
  LossScale second(LossScaling{.initial = 1, .growth_interval = 3});
  second.restore(first.state());
  EXPECT_EQ(second.state(), first.state());
  second.update(/*overflow=*/false);
  EXPECT_EQ(second.value(), 131072);
}

TEST(LossScale, RefusesWhatIsNoPowerOfTwo) {
  for (const double initial : {0.0, 0.5, 3.0, -2.0, 33554432.0})
    EXPECT_THROW(LossScale(LossScaling{.initial = initial}), ConfigError) << initial;
  EXPECT_THROW(LossScale(LossScaling{.growth_interval = 0}), ConfigError);
  LossScale scale{LossScaling{}};
  EXPECT_THROW(scale.restore({.scale = 5}), ConfigError);
  EXPECT_EQ(scale.value(), 65536);
}

}  // namespace loss_scale_test
