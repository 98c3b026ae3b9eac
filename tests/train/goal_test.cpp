#include <gtest/gtest.h>
#include <lockstep/goal.h>
#include <lockstep/trainer.h>

#include <cmath>

namespace lockstep {
namespace goal_test {

TEST(Goal, LargerScoresAreBetterInEitherDirection) {
  const std::map<std::string, double> metrics = {{"other/loss", 3}, {"test/loss", 2}};
  EXPECT_EQ(score({.metric = "test/loss"}, metrics), 2);
  EXPECT_EQ(score({.metric = "test/loss", .higher_is_better = false}, metrics), -2);
  EXPECT_EQ(score({.metric = "loss"}, metrics), 3) << "of any set";
  EXPECT_TRUE(std::isnan(score({.metric = "accuracy"}, metrics)));
  EXPECT_TRUE(std::isnan(score({.metric = "oss"}, metrics)));
  EXPECT_TRUE(std::isnan(score({}, metrics)));
}

TEST(Limits, StepsAndEpochsGiveOneNumberOfSteps) {
  EXPECT_EQ(step_limit({.steps = 7}, 10), 7);
  EXPECT_EQ(step_limit({.epochs = 2}, 10), 20);
  EXPECT_EQ(step_limit({.steps = 7, .epochs = 2}, 10), 7);
  EXPECT_EQ(step_limit({.steps = 70, .epochs = 2}, 10), 20);
  EXPECT_EQ(step_limit({.steps = 70, .epochs = 2}, 0), 70) << "epochs of unknown length";
  EXPECT_EQ(step_limit({.epochs = 2}, 0), 0);
  EXPECT_EQ(step_limit({}, 10), 0);
}

}  // namespace goal_test
}  // namespace lockstep
