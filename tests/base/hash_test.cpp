// The finaliser of SplitMix64: random streams, and so trained weights, stand on its bits.

#include "base/hash.h"

#include <gtest/gtest.h>

namespace hash_test {

using lockstep::base::kGolden;
using lockstep::base::mix;

TEST(Hash, IsSplitMix64) {
  // The first numbers of the generator with seed 0, as its authors publish them.
  EXPECT_EQ(mix(kGolden), 0xe220a8397b1dcdafU);
  EXPECT_EQ(mix(2 * kGolden), 0x6e789e6aa1b965f4U);
  EXPECT_EQ(mix(3 * kGolden), 0x06c45d188009454fU);
}

}  // namespace hash_test
