#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/schedule.h>

#include <cmath>

namespace lockstep {
namespace schedule_test {

TEST(Schedule, ConstantIsConstant) {
  EXPECT_EQ(rate_factor({}, 0), 1);
  EXPECT_EQ(rate_factor({}, 1'000'000), 1);
}

TEST(Schedule, ExponentialDecayIsSmoothOrAStaircase) {
  const Schedule smooth{.shape = ExponentialDecay{.rate = 0.25, .steps = 100}};
  EXPECT_DOUBLE_EQ(rate_factor(smooth, 50), 0.5);
  EXPECT_DOUBLE_EQ(rate_factor(smooth, 200), 0.0625);
  const Schedule stairs{.shape = ExponentialDecay{.rate = 0.25, .steps = 100, .staircase = true}};
  EXPECT_DOUBLE_EQ(rate_factor(stairs, 99), 1);
  EXPECT_DOUBLE_EQ(rate_factor(stairs, 100), 0.25);
}

TEST(Schedule, PiecewiseChangesAtItsBoundaries) {
  const Schedule schedule{.shape = Piecewise{.boundaries = {10, 20}, .factors = {1, 0.1, 0.01}}};
  EXPECT_EQ(rate_factor(schedule, 9), 1);
  EXPECT_EQ(rate_factor(schedule, 10), 0.1);
  EXPECT_EQ(rate_factor(schedule, 19), 0.1);
  EXPECT_EQ(rate_factor(schedule, 20), 0.01);
}

TEST(Schedule, CosineGoesFromOneToItsFloorAndStaysThere) {
  const Schedule schedule{.shape = Cosine{.steps = 100, .floor = 0.2}};
  EXPECT_DOUBLE_EQ(rate_factor(schedule, 0), 1);
  EXPECT_DOUBLE_EQ(rate_factor(schedule, 50), 0.6);
  EXPECT_DOUBLE_EQ(rate_factor(schedule, 100), 0.2);
  EXPECT_DOUBLE_EQ(rate_factor(schedule, 5000), 0.2);
}

TEST(Schedule, InverseSquareRootPeaksAtTheEndOfItsWarmUp) {
  const Schedule schedule{.shape = InverseSquareRoot{}, .warm_up = 100};
  EXPECT_DOUBLE_EQ(rate_factor(schedule, 49), 0.5);
  EXPECT_DOUBLE_EQ(rate_factor(schedule, 99), 1);
  EXPECT_DOUBLE_EQ(rate_factor(schedule, 399), 0.5);
}

TEST(Schedule, WarmUpGrowsInALineOnTopOfEveryShape) {
  const Schedule schedule{.shape = ExponentialDecay{.rate = 0.5, .steps = 10}, .warm_up = 10};
  EXPECT_DOUBLE_EQ(rate_factor(schedule, 4), 0.5 * std::pow(0.5, 0.4));
  EXPECT_DOUBLE_EQ(rate_factor(schedule, 20), 0.25);
}

TEST(Schedule, PlateauDecaysWhenALossIsAboveAllOfTheLastThree) {
  const Schedule schedule{.shape = Plateau{}};
  ScheduleState state;
  for (const double loss : {5.0, 4.0, 4.5}) note_loss(schedule, state, loss);
  EXPECT_EQ(state.decays, 0) << "three reports are needed first";
  note_loss(schedule, state, 4.9);
  EXPECT_EQ(state.decays, 0) << "5.0 was worse";
  note_loss(schedule, state, 5.0);
  EXPECT_EQ(state.decays, 1);
  EXPECT_DOUBLE_EQ(rate_factor(schedule, 7, state), 0.99);
  EXPECT_EQ(state.recent, (std::vector<double>{4.5, 4.9, 5.0}));
}

TEST(Schedule, WhatCannotBeOneIsRefused) {
  EXPECT_THROW(check_schedule({.shape = Piecewise{.boundaries = {5}, .factors = {1}}}),
               ConfigError);
  EXPECT_THROW(check_schedule({.shape = Piecewise{.boundaries = {5, 5}, .factors = {1, 1, 1}}}),
               ConfigError);
  EXPECT_THROW(check_schedule({.shape = ExponentialDecay{.steps = 0}}), ConfigError);
  EXPECT_THROW(check_schedule({.shape = Cosine{.steps = 0}}), ConfigError);
  EXPECT_THROW(check_schedule({.shape = Plateau{.patience = 0}}), ConfigError);
  EXPECT_THROW(check_schedule({.warm_up = -1}), ConfigError);
  EXPECT_NO_THROW(check_schedule({.shape = Piecewise{.boundaries = {5}, .factors = {1, 0.5}}}));
}

}  // namespace schedule_test
}  // namespace lockstep
