#include <gtest/gtest.h>
#include <lockstep/retention.h>

#include <cmath>

namespace lockstep {
namespace retention_test {

/// Checkpoints an hour apart with these scores.
std::vector<Candidate> hourly(const std::vector<double>& scores) {
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < scores.size(); ++i)
    candidates.push_back(
        {static_cast<std::int64_t>(10 * i), static_cast<std::int64_t>(3600 * i), scores[i]});
  return candidates;
}

using Stays = std::vector<bool>;

TEST(Retention, KeepsTheLast) {
  const auto candidates = hourly({NAN, NAN, NAN, NAN});
  EXPECT_EQ(kept({.last = 2, .best = 0}, candidates), (Stays{false, false, true, true}));
  EXPECT_EQ(kept({.last = 9, .best = 0}, candidates), (Stays{true, true, true, true}));
}

TEST(Retention, NeverRemovesTheNewest) {
  EXPECT_EQ(kept({.last = 0, .best = 0}, hourly({NAN, NAN})), (Stays{false, true}));
}

TEST(Retention, KeepsTheFirstAndOneEverySoManyHours) {
  EXPECT_EQ(kept({.last = 1, .every_hours = 2, .best = 0}, hourly({NAN, NAN, NAN, NAN, NAN, NAN})),
            (Stays{true, false, true, false, true, true}));
}

TEST(Retention, WhatIsKeptByHoursStaysKeptWhenAppliedAgainAndAgain) {
  const Retention retention{.last = 1, .every_hours = 3, .best = 0};
  std::vector<Candidate> left;
  std::vector<std::int64_t> steps;
  for (const Candidate& candidate : hourly(std::vector<double>(10, NAN))) {
    left.push_back(candidate);
    const Stays stays = kept(retention, left);
    std::vector<Candidate> next;
    for (std::size_t i = 0; i < left.size(); ++i)
      if (stays[i]) next.push_back(left[i]);
    left = next;
  }
  for (const Candidate& candidate : left) steps.push_back(candidate.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 30, 60, 90}));
}

TEST(Retention, KeepsTheBestAndAmongEqualsTheOldest) {
  EXPECT_EQ(kept({.last = 1, .best = 2}, hourly({0.5, 0.9, NAN, 0.9, 0.9, 0.1})),
            (Stays{false, true, false, true, false, true}));
}

TEST(Retention, SaysItsPlan) {
  EXPECT_EQ(describe(Retention{.last = 3, .every_hours = 0.5, .best = 2}),
            "the last 3, one every 0.5 hours, the best 2");
}

}  // namespace retention_test
}  // namespace lockstep
