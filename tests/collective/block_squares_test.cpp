#include "collective/block_squares.h"

#include <gtest/gtest.h>

#include "arena/arena.h"

namespace block_squares_test {

using namespace lockstep::collective;
using lockstep::arena::kBlock;

using Squares = torch::Tensor (*)(const torch::Tensor&);

class BlockSquares : public testing::TestWithParam<Squares> {};

TEST_P(BlockSquares, AreThoseOfEachBlock) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16})
    for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, kBlock, 3 * kBlock - 7}) {
      const torch::Tensor flat = torch::randn({n}).to(dtype);
      const torch::Tensor found = GetParam()(flat);
      ASSERT_EQ(found.numel(), (n + kBlock - 1) / kBlock);
      for (std::int64_t block = 0; block < found.numel(); ++block) {
        const double plain = flat.slice(0, block * kBlock, (block + 1) * kBlock)
                                 .to(torch::kFloat64)
                                 .square()
                                 .sum()
                                 .item<double>();
        // Another order of 4096 sums of doubles.
        EXPECT_NEAR(found[block].item<double>(), plain, 1e-12 * plain);
      }
    }
}

TEST_P(BlockSquares, OfABlockDoNotDependOnWhatIsAroundIt) {
  const torch::Tensor flat = torch::randn({8 * kBlock});
  const torch::Tensor all = GetParam()(flat);
  for (std::int64_t block = 0; block < 8; ++block)
    EXPECT_TRUE(torch::equal(GetParam()(flat.slice(0, block * kBlock, (block + 1) * kBlock)),
                             all.slice(0, block, block + 1)));
}

INSTANTIATE_TEST_SUITE_P(Kernels, BlockSquares,
                         testing::Values(&block_squares, &block_squares_by_halves));

}  // namespace block_squares_test
