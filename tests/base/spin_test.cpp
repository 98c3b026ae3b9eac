// Waiting without sleeping, for a moment.

#include "base/spin.h"

#include <gtest/gtest.h>

namespace spin_test {

using lockstep::base::Spin;

TEST(Spin, SeesWhatComesTrueWhileItLooks) {
  Spin spin;
  int looks = 0;
  EXPECT_TRUE(spin.until([&] { return ++looks == 20; }));
  EXPECT_EQ(looks, 20);
}

TEST(Spin, LeavesALongWaitToTheCaller) {
  Spin spin;
  EXPECT_FALSE(spin.until([] { return false; }));
}

/// How many of `waits` looked more than once for what never came.
int patient_waits(Spin& spin, int waits) {
  int patient = 0;
  for (int i = 0; i < waits; ++i) {
    int looks = 0;
    EXPECT_FALSE(spin.until([&] {
      ++looks;
      return false;
    }));
    patient += looks > 1;
  }
  return patient;
}

TEST(Spin, LongWaitsMakeItLookLessOften) {
  Spin spin;
  EXPECT_EQ(patient_waits(spin, 127 - 7), 7);  // after each as many more that do not: 1, 2, 4, ...
  EXPECT_LE(patient_waits(spin, 1000), 17);    // 64 at the most
}

TEST(Spin, AShortWaitMakesItPatientAgain) {
  Spin spin;
  patient_waits(spin, 1000);
  const auto done = [] { return true; };
  for (int i = 0; i <= 64; ++i) EXPECT_TRUE(spin.until(done));
  EXPECT_EQ(patient_waits(spin, 3), 2);
}

}  // namespace spin_test
